"""Why tasks wait: what people read, and that every number in it is true."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from holdfast.model.workers.resources import Capacity, Constraint
from holdfast.rules.placement.constraints import matches
from holdfast.rules.placement.scheduler import Demand, Reason, Shape, WorkerView, explain, plan
from tests.rules import naive_placement as naive
from tests.rules.placement_builders import (
    GB,
    NOW,
    a_demand,
    a_gang,
    a_shape,
    a_worker,
    demands,
    workers,
)

EU = Constraint("region", "=", "eu")
FULL = Capacity(cpu=8.0)


def why(workers: list[WorkerView], demand: Demand, *others: Demand) -> Reason:
    return explain(workers, [*others, demand], demand, now=NOW)


def test_without_workers_that_is_said() -> None:
    reason = why([], a_demand())
    assert reason.code == "no_workers"
    assert reason.message == "no worker has registered for placed work"


def test_what_fits_goes_with_the_next_pass() -> None:
    assert why([a_worker()], a_demand()).message == "fits now, next pass"
    assert why([a_worker()], a_demand()).code == "fits"


def test_each_worker_is_counted_once_with_the_numbers() -> None:
    fleet = [a_worker(f"w{n}", gpu=4, used=Capacity(gpu=2), attributes={"region": "eu"})
             for n in range(9)]  # fmt: skip
    fleet += [a_worker(f"x{n}", gpu=4, attributes={"region": "us"}) for n in range(3)]
    reason = why(fleet, a_demand(shape=a_shape(EU, gpu=4)))
    assert reason.code == "lacks_resources"
    assert reason.message == "12 workers: 9 lack gpu (need 4, most free 2), 3 fail region=eu"
    assert reason.details["lacks"] == [{"workers": 9, "resource": "gpu", "need": 4, "most_free": 2}]
    assert reason.details["fails"] == [{"workers": 3, "constraint": "region=eu"}]


def test_amounts_are_written_for_people() -> None:
    shape = a_shape(cpu=1.5, memory=4 * GB)
    fleet = [a_worker("w1", used=Capacity(cpu=7.25)), a_worker("w2", used=Capacity(memory=30 * GB))]
    assert why(fleet, a_demand(shape=shape)).message == (
        "2 workers: 1 lacks cpu (need 1.5, most free 0.75), "
        "1 lacks memory (need 4GB, most free 2GB)"
    )


def test_what_no_worker_has_could_never_fit() -> None:
    reason = why([a_worker("w1", gpu=2), a_worker("w2", gpu=1)], a_demand(shape=a_shape(gpu=4)))
    assert reason.code == "never_fits"
    assert reason.message == (
        "2 workers: 2 lack gpu (need 4, most free 2); could never fit: the largest has 2 gpu"
    )


def test_what_no_worker_has_together_could_never_fit() -> None:
    fleet = [a_worker("w1", gpu=2, cpu=2), a_worker("w2")]
    reason = why(fleet, a_demand(shape=a_shape(gpu=1, cpu=4)))
    assert reason.code == "never_fits"
    assert reason.message.endswith("could never fit: none has 1 gpu, 4 cpu together")


def test_constraints_that_nobody_fulfils_are_named() -> None:
    shape = a_shape(EU, gpu=1, gpu_model="H100")
    fleet = [a_worker("w1", gpu=1, gpu_model="H100"), a_worker("w2", attributes={"region": "eu"})]
    reason = why(fleet, a_demand(shape=shape))
    assert reason.code == "fails_constraints"
    assert reason.message == "2 workers: 1 fails gpu_model=H100, 1 fails region=eu"


def test_workers_that_take_no_work_say_why() -> None:
    fleet = [a_worker("w1", accepts=False, why_not="draining"),
             a_worker("w2", accepts=False, why_not="its last heartbeat failed")]  # fmt: skip
    reason = why(fleet, a_demand())
    assert reason.code == "not_accepting"
    assert reason.message == (
        "2 workers: 1 takes no work (draining), 1 takes no work (its last heartbeat failed)"
    )


def test_build_slots_are_waited_for() -> None:
    reason = why([a_worker("w1", unstarted=8), a_worker("w2", used=FULL)], a_demand())
    assert reason.code == "build_slots"
    assert reason.message == (
        "waits for build slots; 2 workers: 1 lacks cpu (need 1, most free 0), "
        "1 has all 8 build slots taken"
    )


def test_a_worker_kept_for_another_job_is_named_with_it() -> None:
    large = a_demand(4180, a_shape(cpu=8), since=NOW - 60)
    fleet = [a_worker("w1", used=Capacity(cpu=4)), a_worker("w2", used=FULL)]
    reason = why(fleet, a_demand(4181), large)
    assert reason.code == "reserved"
    assert reason.message.startswith("behind others: 1 worker is kept for job 4180; 2 workers: ")
    assert reason.details["kept"] == [{"workers": 1, "jobs": [4180]}]
    mine = why(fleet, large)
    assert mine.code == "lacks_resources"
    assert mine.message.endswith("; 1 worker is kept for it until it fits")


def test_a_gang_says_how_many_fit_in_the_largest_group() -> None:
    fleet = [a_worker("w1", cpu=6, attributes={"rack": "r1"}),
             a_worker("w2", used=Capacity(cpu=5), attributes={"rack": "r2"}),
             a_worker("w3", used=FULL, attributes={"rack": "r2"})]  # fmt: skip
    reason = why(fleet, a_gang(members=8, shape=a_shape(group_by="rack")))
    assert reason.code == "gang_waits"
    assert reason.message == (
        "largest rack has 6 of 8; 3 workers: 2 have room for a member, "
        "1 lacks cpu (need 1, most free 0)"
    )
    assert why(fleet[:1], a_gang(members=8, shape=a_shape(group_by="rack"))).message == (
        "1 worker: 1 has room for a member; could never fit: the largest rack has room for 6 of 8"
    )


def test_a_gang_without_group_says_how_many_fit() -> None:
    fleet = [a_worker("w1", used=Capacity(cpu=5)), a_worker("w2", used=FULL)]
    reason = why(fleet, a_gang(members=4))
    assert reason.code == "gang_waits"
    assert reason.message.startswith("3 of 4 members of the gang fit; 2 workers: ")
    assert reason.details["members_fitting"] == 3


def test_a_gang_waits_for_members_that_are_away() -> None:
    reason = why([a_worker()], a_gang(members=4, count=2, gang_missing=2))
    assert (reason.code, reason.message) == ("gang_missing", "waits for 2 members of its gang")


def test_a_gang_waits_for_build_slots_or_behind_others() -> None:
    assert why([a_worker("w1", unstarted=6)], a_gang(members=4)).code == "build_slots"
    large = a_demand(7, a_shape(cpu=8), since=NOW - 60)
    reason = why([a_worker("w1", used=Capacity(cpu=4))], a_gang(8, members=4), large)
    assert reason.code == "reserved"
    assert "kept for job 7" in reason.message


def test_a_part_that_fits_is_told_apart_from_the_rest() -> None:
    reason = why([a_worker()], a_demand(count=20))
    assert reason.message.startswith("8 of 20 fit now, next pass; for the others, ")
    assert reason.details["fitting"] == 8
    assert reason.details["waiting"] == 12


def test_tasks_ahead_are_counted() -> None:
    reason = why([a_worker()], a_demand(2, a_shape(cpu=2)), a_demand(1, count=7))
    assert (
        reason.message == "1 worker: 1 lacks cpu (need 2, most free 1) (after 7 tasks ahead of it)"
    )


def count_obstacles(place: naive.Place, shape: Shape) -> tuple[str, str]:
    """Find the first thing that stands in a worker's way, as the numbers in a reason name it."""
    if not place.view.accepts:
        return "not_accepting", place.view.why_not or "not accepting"
    if shape.gpu_model not in (None, place.view.capacity.gpu_model):
        return "fails", f"gpu_model={shape.gpu_model}"
    for text in shape.constraints:
        if not matches(naive.read(text), place.view.attributes):
            return "fails", str(naive.read(text))
    if shape.group_by is not None and shape.group_by not in place.view.attributes:
        return "fails", f"{shape.group_by} exists"
    for name in ("gpu", "cpu", "memory", "disk"):
        if 0 < naive.needs(shape)[name] > place.free[name]:
            return "lacks", name
    if place.host_ports[place.view.host] < shape.ports:
        return "lacks", "ports"
    if place.kept_for is not None:
        return "kept", ""
    return ("build_slots", "") if place.free["slots"] < 1 else ("", "")


def numbers_of(details: dict[str, Any]) -> Counter[tuple[str, str]]:
    names = {"not_accepting": "why", "fails": "constraint", "lacks": "resource"}
    return Counter(
        {
            (kind, str(each.get(names.get(kind, ""), ""))): each["workers"]
            for kind in (*names, "kept", "build_slots")
            for each in details.get(kind, [])
        }
    )


@settings(max_examples=60)
@given(workers(), demands(), some.integers(2, 8))
def test_every_task_that_waits_has_a_true_reason(
    fleet: list[WorkerView], waiting: list[Demand], unstarted_max: int
) -> None:
    left = plan(fleet, waiting, NOW, unstarted_max=unstarted_max).waiting
    for demand in waiting:
        reason = explain(fleet, waiting, demand, now=NOW, unstarted_max=unstarted_max)
        if (demand.job_id, demand.avoid) not in left:
            assert reason.code == "fits" or not fleet or not demand.count
            continue
        assert reason.details["waiting"] == left[demand.job_id, demand.avoid]
        assert reason.code != "fits"
        if fleet:
            check_reason(reason, fleet, waiting, demand=demand, unstarted_max=unstarted_max)


def check_reason(
    reason: Reason,
    fleet: list[WorkerView],
    waiting: list[Demand],
    *,
    demand: Demand,
    unstarted_max: int,
) -> None:
    """Compare a reason with a plain search up to the demand's turn, and with each worker then."""
    ranked = naive.order(waiting)
    before = [*ranked[: ranked.index(demand)], demand._replace(since=NOW)]
    before = [each._replace(priority=-number) for number, each in enumerate(before)]
    _, places = naive.naive_plan(fleet, before, NOW, unstarted_max=unstarted_max)
    shape, found = demand.shape, Counter[tuple[str, str]]()
    for place in places:
        found[count_obstacles(place, shape)] += 1
    fitting = found.pop(("", ""), 0)
    assert numbers_of(reason.details) == found
    for each in reason.details.get("lacks", []):
        struck = [p for p in places if count_obstacles(p, shape) == ("lacks", each["resource"])]
        free = [p.host_ports[p.view.host] if each["resource"] == "ports"
                else p.free[each["resource"]] for p in struck]  # fmt: skip
        scale = 1000 if each["resource"] == "cpu" else 1
        assert each["most_free"] == max(0, *free) / scale
        assert each["need"] > each["most_free"]
    able = [place for place in places if place.meets(shape)]
    room_of = {id(place): place.fits_idle(shape, unstarted_max) for place in able}
    groups = naive.groups_of([place for place in able if room_of[id(place)]], shape)
    idle = [
        naive.one_per_host(group).total()
        if shape.hosts == "spread"
        else sum(room_of[id(place)] for place in group)
        for group in groups
    ]
    members = 1 if demand.gang is None else max(demand.count, demand.gang)
    assert (reason.code == "never_fits") is (bool(able) and max(idle, default=0) < members)
    if demand.gang is None:
        assert fitting == 0
    elif "members_fitting" in reason.details:
        groups = naive.groups_of(places, shape)
        most = [
            naive.serve_each(group, demand._replace(avoid=None), 999).total() for group in groups
        ]
        assert reason.details["members_fitting"] == max(most) < demand.count
