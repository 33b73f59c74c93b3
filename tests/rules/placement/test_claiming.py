"""What the workers of a queue lack for claimed tasks that name resources."""

from holdfast.model.workers.resources import Capacity, Resources
from holdfast.rules.placement.claiming import explain_no_room
from holdfast.rules.placement.snapshot import WorkerView


def worker(name: str, *, cpu: float, used: float = 0.0, memory: int = 10**9) -> WorkerView:
    capacity = Capacity(cpu=cpu, memory=memory)
    return WorkerView(name, name, "h", capacity, {}, Capacity(cpu=used), 0, 0, True, None)


def test_where_one_has_room_or_nobody_is_there_nothing_is_said() -> None:
    assert explain_no_room([worker("a", cpu=1), worker("b", cpu=2)], Resources(cpu=2)) is None
    assert explain_no_room([], Resources(cpu=2)) is None


def test_where_nobody_has_room_the_nearest_come_first_with_what_each_lacks() -> None:
    workers = [worker("a", cpu=2, used=1.5), worker("b", cpu=2, used=0.5)]
    reason = explain_no_room(workers, Resources(cpu=2, memory="2GB"))
    assert reason is not None
    assert [str(each) for each in reason.nearest] == [
        "worker b: 1.5 of 2 cpu free (needs 2), 1GB of 1GB memory free (needs 2GB)",
        "worker a: 0.5 of 2 cpu free (needs 2), 1GB of 1GB memory free (needs 2GB)",
    ]
    later = explain_no_room(workers, Resources(cpu=2))
    assert later is not None
    assert (later.code, later.message) == (
        "lacks_resources",
        "2 workers: 2 lack cpu (need 2, most free 1.5)",
    )
