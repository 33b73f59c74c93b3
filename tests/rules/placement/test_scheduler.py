"""The scheduler by examples: order, gangs, those who wait long, and what passes them by."""

import pytest

from holdfast.model.workers.resources import Capacity
from holdfast.rules.placement.scheduler import (
    RESERVATIONS_MAX,
    RESERVE_AFTER_SECONDS,
    Demand,
    Placement,
    WorkerView,
    explain,
    plan,
)
from tests.rules.placement_builders import NOW, a_demand, a_gang, a_shape, a_worker

LONG_AGO = NOW - RESERVE_AFTER_SECONDS - 1
HALF_USED = Capacity(cpu=4.0)


def placed(
    workers: list[WorkerView], *demands: Demand, placements_max: int | None = None
) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    names = {worker.worker_id: worker.name for worker in workers}
    for each in plan(workers, demands, NOW, placements_max=placements_max).placements:
        tasks = found.setdefault(each.job_id, {})
        tasks[names[each.worker_id]] = tasks.get(names[each.worker_id], 0) + each.count
    return found


def test_without_workers_or_lines_nothing_is_placed() -> None:
    assert plan([], [], NOW) == ([], {})
    assert plan([a_worker()], [], NOW) == ([], {})
    assert plan([], [a_demand(3, count=2)], NOW) == ([], {(3, None): 2})
    assert plan([a_worker()], [a_demand(count=0)], NOW) == ([], {})


def test_a_placement_names_its_line() -> None:
    demands = [a_demand(5, avoid="w1"), a_demand(5, count=9)]
    found = plan([a_worker("w1"), a_worker("w2")], demands, NOW)
    assert found.placements == [
        Placement(5, "id-w2", 1, "w1"),
        Placement(5, "id-w1", 8, None),
        Placement(5, "id-w2", 1, None),
    ]


def test_the_higher_priority_goes_first_and_then_the_older() -> None:
    worker = [a_worker(cpu=2)]
    young, old = a_demand(1, since=NOW - 1), a_demand(2, since=NOW - 9)
    urgent = a_demand(3, priority=5)
    assert placed(worker, young, old, urgent) == {3: {"w1": 1}, 2: {"w1": 1}}


def test_a_large_task_at_the_head_does_not_block_small_ones() -> None:
    large = a_demand(1, a_shape(cpu=8), priority=9)
    assert placed([a_worker(used=HALF_USED)], large, a_demand(2, count=3)) == {2: {"w1": 3}}


def test_what_has_waited_long_gets_a_worker_kept() -> None:
    large = a_demand(1, a_shape(cpu=8), since=LONG_AGO)
    workers = [a_worker("w1", used=HALF_USED), a_worker("w2", used=Capacity(cpu=7))]
    assert placed(workers, large, a_demand(2, count=9)) == {2: {"w2": 1}}
    urgent = a_demand(3, priority=1)
    assert placed(workers, large, urgent) == {3: {"w1": 1}}


def test_what_could_never_fit_keeps_nobody_from_working() -> None:
    hopeless = a_demand(1, a_shape(cpu=9), since=LONG_AGO)
    assert placed([a_worker(used=HALF_USED)], hopeless, a_demand(2)) == {2: {"w1": 1}}


def test_a_line_that_was_served_keeps_nothing_besides() -> None:
    demand = a_demand(1, a_shape(cpu=3), count=9, since=LONG_AGO)
    assert placed([a_worker()], demand, a_demand(2, count=9)) == {1: {"w1": 2}, 2: {"w1": 2}}


def test_only_a_few_lines_get_workers_kept() -> None:
    workers = [a_worker(f"w{n:02}", used=HALF_USED) for n in range(RESERVATIONS_MAX + 2)]
    large = [a_demand(job, a_shape(cpu=8), since=LONG_AGO) for job in range(20)]
    found = placed(workers, *large, a_demand(99, count=99))
    assert found == {99: {"w08": 4, "w09": 4}}


def test_a_gang_waits_for_all_its_members() -> None:
    assert placed([a_worker()], a_gang(members=4)) == {1: {"w1": 4}}
    assert placed([a_worker()], a_gang(members=4, count=3, gang_missing=1)) == {}
    assert placed([a_worker()], a_gang(members=4, count=3)) == {}


def test_a_gang_that_waits_for_members_keeps_no_worker() -> None:
    gang = a_gang(1, members=8, count=7, gang_missing=1, since=LONG_AGO)
    assert placed([a_worker(used=HALF_USED)], gang, a_demand(2)) == {2: {"w1": 1}}


def test_a_gang_that_failed_says_nothing_about_a_smaller_one() -> None:
    gangs = [a_gang(1, members=9), a_gang(2, members=8), a_gang(3, members=1)]
    assert placed([a_worker()], *gangs) == {2: {"w1": 8}}


def test_workers_that_take_no_work_get_none() -> None:
    away = a_worker("w1", accepts=False, why_not="draining")
    assert placed([away, a_worker("w2")], a_demand(count=99)) == {1: {"w2": 8}}


def test_a_plan_can_be_kept_short() -> None:
    demands = [a_demand(1, count=3), a_demand(2, count=3), a_demand(3, count=3)]
    found = plan([a_worker()], demands, NOW, placements_max=4)
    assert [(each.job_id, each.count) for each in found.placements] == [(1, 3), (2, 1)]
    assert found.waiting == {(2, None): 2, (3, None): 3}


def test_no_gang_is_too_large_for_a_short_plan() -> None:
    demands = [a_demand(1), a_gang(2, members=4), a_demand(3), a_gang(4, members=2)]
    found = placed([a_worker()], *demands, placements_max=3)
    assert found == {1: {"w1": 1}, 2: {"w1": 4}}


def test_a_short_plan_keeps_nobody_for_lines_it_did_not_reach() -> None:
    large = a_demand(2, a_shape(cpu=8), since=LONG_AGO)
    found = plan([a_worker()], [a_demand(1, priority=1), large], NOW, placements_max=1)
    assert found.waiting == {(2, None): 1}


@pytest.mark.parametrize("group_by", [None, "rack"])
@pytest.mark.parametrize("members", [1, 3, 16])
def test_nothing_is_starved_by_a_stream_of_small_tasks(
    members: int, group_by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = a_shape(cpu={1: 8, 3: 8, 16: 1}[members], group_by=group_by)
    gang = a_gang(1, members, shape=shape, since=NOW)
    assert passes_until_placed(gang) < 30
    monkeypatch.setattr("holdfast.rules.placement.scheduler.RESERVE_AFTER_SECONDS", 1000.0)
    assert passes_until_placed(gang) == 200


def passes_until_placed(gang: Demand) -> int:
    """Run passes a second apart while small tasks of 3 to 7 seconds keep coming; at most 200."""
    ends: dict[str, list[int]] = {f"w{number}": [] for number in range(6)}
    for second in range(200):
        ends = {name: [end for end in tasks if end > second] for name, tasks in ends.items()}
        fleet = [
            a_worker(
                name, used=Capacity(cpu=float(len(tasks))), attributes={"rack": int(name[1]) % 2}
            )
            for name, tasks in ends.items()
        ]
        stream = a_demand(2, count=100, since=NOW + second)
        # The stream was here first: at the start it fills every worker.
        demands = [stream, gang] if second else [stream]
        found = plan(fleet, demands, NOW + second)
        for each in found.placements:
            if each.job_id == gang.job_id:
                return second
            started = ends[each.worker_id.removeprefix("id-")]
            started += [second + 3 + (second + number) % 5 for number in range(each.count)]
    return 200


def test_what_is_explained_is_what_is_planned() -> None:
    workers = [a_worker("w1", cpu=2), a_worker("w2", cpu=4)]
    demands = [a_demand(1, a_shape(cpu=2), count=2), a_demand(2, a_shape(cpu=2), count=2)]
    left = plan(workers, demands, NOW).waiting
    assert left == {(2, None): 1}
    assert explain(workers, demands, demands[0], now=NOW).code == "fits"
    assert explain(workers, demands, demands[1], now=NOW).details["fitting"] == 1
