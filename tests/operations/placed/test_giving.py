"""What attempts are given for themselves alone."""

import json
from collections import defaultdict

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.operations.placed.giving import Giver
from holdfast.operations.placed.snapshot import Snapshot, Wants
from holdfast.rules.placement.scheduler import Placement
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld
from tests.rules.placement_builders import a_shape, a_worker
from tests.stand_in import StandIn

PENDING, ASSIGNED = TaskState.PENDING, TaskState.ASSIGNED

WANTS = {gpu: Wants(a_shape(gpu=gpu), False, ("http",)) for gpu in (0, 1, 2)}  # by job


def a_snapshot(**used: set[str]) -> Snapshot:
    """Describe two workers of one name and host with devices 0 to 2, and a third one."""
    mine = {"host": "h", "capacity": Capacity(gpu=3)}
    workers = [
        a_worker(name, worker_id=worker_id, **mine)
        for name, worker_id in (("a", "a1"), ("a", "a2"), ("b", "b"))
    ]
    devices = defaultdict(set, {("h", name): each for name, each in used.items()})
    return Snapshot(workers, [], 0.0, [], defaultdict(set), devices)


def test_no_device_of_one_name_is_given_twice() -> None:
    giver = Giver(a_snapshot(a={"1"}), WANTS, {})
    assert giver.give(1, "a1").devices == ["0"]
    assert giver.give(0, "a1").devices == []
    assert giver.give(1, "a2").devices == ["2"]
    assert giver.give(2, "b").devices == ["0", "1"]


def test_a_plan_is_cut_down_to_the_devices_that_there_are() -> None:
    ones, pair = Placement(1, "a1", 2, None), Placement(2, "a2", 1, None)
    rest = [Placement(0, "a2", 5, None), Placement(1, "b", 9, None)]
    fitting = Giver(a_snapshot(), WANTS, {}).fit([ones, pair, *rest])
    assert fitting == [ones, rest[0], Placement(1, "b", 3, None)]


def test_what_came_to_nothing_is_not_noted() -> None:
    snapshot, last_ports = a_snapshot(), dict[str, int]()
    given = Giver(snapshot, WANTS, last_ports).give(1, "a1")
    assert not any(snapshot.devices_used.values())
    assert not any(snapshot.ports_used.values())
    giver = Giver(snapshot, WANTS, last_ports)
    assert giver.give(1, "a1") == given
    giver.note()
    assert Giver(snapshot, WANTS, last_ports).give(1, "a1").devices == ["1"]
    assert last_ports == {"h": given.ports["http"]}


async def devices(cluster: PlacedWorld) -> dict[TaskId, list[str]]:
    """Read which devices are given out, and to whom."""
    rows = await cluster.clock.fetch(
        "select job_id, task_index, leases.devices::text as devices, attempt_usage.devices::text "
        "as noted from holdfast.leases join holdfast.attempt_usage "
        "using (job_id, task_index, attempt) order by job_id, task_index"
    )
    assert all(row["devices"] == row["noted"] for row in rows)
    return {TaskId(row["job_id"], row["task_index"]): json.loads(row["devices"]) for row in rows}


async def test_a_device_is_given_to_one_attempt_until_its_process_is_gone(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1", gpu=3)
    one, pair = (
        await cluster.submit(resources={"gpu": 1}),
        await cluster.submit(resources={"gpu": 2}),
    )
    await cluster.place()
    given = {TaskId(one, 0): ["0"], TaskId(pair, 0): ["1", "2"]}
    assert await devices(cluster) == given
    await cluster.beat()
    next_one = await cluster.submit(resources={"gpu": 1})
    await cluster.cancel_job(pair)
    assert await cluster.place() == {}, "its process may still use them"
    assert await devices(cluster) == given
    await cluster.beat()
    assert worker.running() == [f"{one}.0"]
    await cluster.place()
    assert await devices(cluster) == {TaskId(one, 0): ["0"], TaskId(next_one, 0): ["1"]}
    await assert_audit_is_silent(database)


async def test_adopted_attempts_keep_their_devices(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", host="h", gpu=2)
    first, lost = (
        await cluster.submit(resources={"gpu": 1}),
        await cluster.submit(resources={"gpu": 1}),
    )
    await cluster.place()
    await cluster.beat()
    new = StandIn("w2")
    new.held = {k: v for k, v in cluster.workers["w1"].held.items() if k[0] == f"{lost}.0"}
    fence = await cluster.fence(TaskId(lost, 0))
    await cluster.register(new, replaces="w1", adopts=(fence,), host="h", gpu=2)
    await cluster.beat("w2")
    await cluster.place()
    assert await devices(cluster) == {TaskId(first, 0): ["0"], TaskId(lost, 0): ["1"]}
    await assert_audit_is_silent(database)


async def test_what_a_dead_worker_gave_out_waits_for_the_ends_of_its_leases(
    cluster: PlacedWorld, database: Database
) -> None:
    """Its processes may live on, and the next incarnation has the same devices."""
    [old] = await cluster.add("w1", host="h", gpu=2)
    first = await cluster.submit(resources={"gpu": 1}, max_retries_preemption=0)
    await cluster.place()
    await cluster.beat()
    await cluster.die(old)
    await cluster.register(StandIn("w2"), host="h", gpu=2)
    await cluster.beat("w2")
    second = await cluster.submit(resources={"gpu": 1})
    third = await cluster.submit(resources={"gpu": 1})
    await cluster.place()
    assert await devices(cluster) == {TaskId(first, 0): ["0"], TaskId(second, 0): ["1"]}
    await cluster.pass_time(90)
    await cluster.place()
    assert (await devices(cluster))[TaskId(third, 0)] == ["0"]
    await assert_audit_is_silent(database)


async def test_two_workers_of_one_name_and_host_share_their_devices(
    cluster: PlacedWorld, database: Database
) -> None:
    for worker in (StandIn("w1"), StandIn("w2")):
        await cluster.register(worker, host="h", gpu=1)
    await cluster.beat()
    job_id = await cluster.submit(inputs=[1, 2], resources={"gpu": 1})
    gang = await cluster.submit(replicas=2, coscheduling={}, resources={"gpu": 1})
    assert len(await cluster.place()) == 1
    assert await cluster.place() == {}
    assert [*(await devices(cluster)).values()] == [["0"]]
    assert await cluster.states(gang) == [PENDING] * 2
    assert sorted(await cluster.states(job_id)) == [PENDING, ASSIGNED]
    await assert_audit_is_silent(database)
