"""What must hold of every plan, whatever the workers and demands."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as some

from holdfast.rules.placement.scheduler import Demand, Placement, Plan, WorkerView, plan
from tests.rules import naive_placement as naive
from tests.rules.placement_builders import NOW, a_demand, a_shape, a_worker, demands, workers

FLEETS = workers()
LINES = demands()


def sort(placements: list[Placement]) -> list[Placement]:
    return sorted(placements, key=str)


def book(places: list[naive.Place], demand: Demand, found: Plan) -> None:
    """Book a demand's part of a plan, worker by worker, checking each task."""
    by_id = {place.view.worker_id: place for place in places}
    for each in found.placements:
        if (each.job_id, each.avoid) == (demand.job_id, demand.avoid):
            for _ in range(each.count):
                place = by_id[each.worker_id]
                assert place.fits(demand.shape), (place, demand)
                place.book(demand.shape)


@settings(max_examples=80)
@given(FLEETS, LINES, some.integers(1, 8))
def test_a_plan_is_that_of_a_plain_search_task_by_task(
    fleet: list[WorkerView], waiting: list[Demand], unstarted_max: int
) -> None:
    found = plan(fleet, waiting, NOW, unstarted_max=unstarted_max)
    expected, _ = naive.naive_plan(fleet, waiting, NOW, unstarted_max=unstarted_max)
    assert sort(found.placements) == sort(expected.placements)
    assert found.waiting == expected.waiting


@settings(max_examples=50)
@given(FLEETS, LINES, some.one_of(some.none(), some.integers(0, 20)))
def test_no_plan_breaks_a_limit_or_a_constraint(
    fleet: list[WorkerView], waiting: list[Demand], placements_max: int | None
) -> None:
    found = plan(fleet, waiting, NOW, unstarted_max=4, placements_max=placements_max)
    places = naive.places_of(fleet, 4)
    for demand in waiting:
        book(places, demand, found)
    assert all(each.count > 0 for each in found.placements)


@settings(max_examples=50)
@given(FLEETS, LINES, some.one_of(some.none(), some.integers(0, 20)))
def test_every_task_is_placed_or_waits_and_gangs_are_whole(
    fleet: list[WorkerView], waiting: list[Demand], placements_max: int | None
) -> None:
    found = plan(fleet, waiting, NOW, placements_max=placements_max)
    racks = {view.worker_id: view.attributes.get("rack") for view in fleet}
    hosts = {view.worker_id: view.host for view in fleet}
    for demand in waiting:
        mine = [p for p in found.placements if (p.job_id, p.avoid) == (demand.job_id, demand.avoid)]
        count = sum(each.count for each in mine)
        assert count + found.waiting.get((demand.job_id, demand.avoid), 0) == demand.count
        if demand.gang is not None:
            assert count in (0, demand.gang)
            assert not count or not demand.gang_missing
        if demand.shape.group_by is not None and mine:
            [rack] = {(isinstance(racks[p.worker_id], bool), racks[p.worker_id]) for p in mine}
            assert rack[1] is not None
        used = [hosts[p.worker_id] for p in mine]
        if demand.shape.hosts == "spread":
            assert len(set(used)) == count
        if demand.shape.hosts == "pack" and mine:
            assert len(set(used)) == 1


@settings(max_examples=50)
@given(FLEETS, LINES, some.randoms(use_true_random=False))
def test_the_order_in_which_things_are_told_changes_nothing(
    fleet: list[WorkerView], waiting: list[Demand], chance: random.Random
) -> None:
    found = plan(fleet, waiting, NOW)
    chance.shuffle(fleet)
    chance.shuffle(waiting)
    assert plan(fleet, waiting, NOW) == found


@settings(max_examples=60)
@given(FLEETS, demands(waits=False))
def test_nobody_gets_what_one_before_him_could_have_used(
    fleet: list[WorkerView], waiting: list[Demand]
) -> None:
    found = plan(fleet, waiting, NOW)
    places = naive.places_of(fleet, 8)
    for demand in naive.order(waiting):
        book(places, demand, found)
        if demand.gang is None and (demand.job_id, demand.avoid) in found.waiting:
            assert not any(place.fits(demand.shape) for place in places)


@settings(max_examples=50)
@given(FLEETS, LINES)
def test_a_worker_that_failed_a_task_is_the_last_to_get_it_again(
    fleet: list[WorkerView], waiting: list[Demand]
) -> None:
    found = plan(fleet, waiting, NOW)
    names = {view.worker_id: view.name for view in fleet}
    places = naive.places_of(fleet, 8)
    for demand in naive.order(waiting):
        book(places, demand, found)
        mine = {names[p.worker_id] for p in found.placements
                if (p.job_id, p.avoid) == (demand.job_id, demand.avoid)}  # fmt: skip
        kept = any(NOW - each.since > 10 for each in waiting)
        if demand.avoid in mine and demand.gang is None and not kept:
            others = [place for place in places if place.view.name != demand.avoid]
            assert not any(place.fits(demand.shape) for place in others)


def test_hundreds_of_workers_are_searched_as_a_few_are() -> None:
    fleet = [
        a_worker(f"w{n:03}", cpu=(2, 4, 8)[n % 3], gpu=(0, 0, 0, 2)[n % 4], host=f"h{n // 2}",
                 ports_free=n % 5, attributes={"rack": n % 7}, accepts=n % 11 > 0)
        for n in range(520)
    ]  # fmt: skip
    chance = random.Random(7)
    waiting: list[Demand] = []
    for job_id in range(50):
        shape = a_shape(cpu=chance.choice((0.5, 1, 3, 8)), gpu=chance.choice((0, 0, 1)),
                        ports=chance.choice((0, 0, 1)))  # fmt: skip
        count = chance.choice((1, 20, 90))
        gang = count if chance.random() < 0.2 else None
        avoid = chance.choice((None, "w003"))
        since = NOW - chance.choice((0, 60))
        waiting.append(a_demand(job_id, shape, count=count, gang=gang, avoid=avoid, since=since))
    found = plan(fleet, waiting, NOW)
    expected, _ = naive.naive_plan(fleet, waiting, NOW)
    assert sort(found.placements) == sort(expected.placements)
    placed = Counter[int]()
    for each in found.placements:
        placed[each.job_id] += each.count
    assert placed.total() > 500
    assert found.waiting


@given(
    some.lists(some.sampled_from("abcd"), min_size=1, max_size=6),
    some.integers(1, 6),
    some.sampled_from(["spread", "pack"]),
)
def test_a_gang_is_laid_out_over_hosts_as_asked_if_that_is_possible(
    hosts: list[str], members: int, layout: str
) -> None:
    fleet = [a_worker(f"w{n}", host=host, cpu=2) for n, host in enumerate(hosts)]
    waiting = a_demand(1, a_shape(hosts=layout), count=members, gang=members)
    found = plan(fleet, [waiting], NOW)
    room = len(set(hosts)) if layout == "spread" else 2 * max(map(hosts.count, hosts))
    assert bool(found.placements) is (room >= members)
    on = {view.worker_id: view.host for view in fleet}
    used = [on[each.worker_id] for each in found.placements for _ in range(each.count)]
    if used:
        assert len(set(used)) == (members if layout == "spread" else 1)
