"""Whose turn it is among demands that are shared."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as some

from holdfast.rules.placement.scheduler import Demand, WorkerView, explain, plan
from holdfast.rules.placement.turns import KnownPass, Line, Turns, begin_turns
from tests.rules.placement_builders import NOW, a_demand, a_gang, a_worker, demands, workers

OWNERS = some.sampled_from(["ann", "bob", "cat"])
WEIGHTS = {"ann": 3.0, "cat": 0.5}


def begun(found: list[Demand], weights: dict[str, float] | None = None) -> Turns:
    """Begin all shares at nothing."""
    return Turns({(each.priority, each.share): 0.0 for each in found}, weights or {})


def test_demands_are_served_by_weight_within_a_priority() -> None:
    found = [
        a_demand(1, share="ann", count=100),
        a_demand(2, share="bob", count=100),
        a_demand(3, share="bob", count=2, priority=1),
    ]
    line = Line(found, begun(found, WEIGHTS))
    served = Counter[int]()
    for _ in range(42):
        first = line.first()
        assert first is not None
        served[first.job_id] += 1
        line.note(1)
    assert served == {3: 2, 1: 30, 2: 10}


def test_what_is_passed_over_costs_its_share_nothing() -> None:
    found = [a_demand(1, share="ann"), a_demand(2, share="ann", since=NOW + 1)]
    line = Line(found, begun(found))
    assert line.first() == found[0]
    line.note(0)
    assert line.first() == found[1]
    line.note(1)
    assert line.first() is None


def test_nobody_saves_up_turns_and_nobody_loses_his_place() -> None:
    known = [
        KnownPass((0, "busy"), 7.0, False),
        KnownPass((0, "gone"), 9.0, True),
        KnownPass((0, "late"), 2.0, True),
        KnownPass((0, "ahead"), 8.0, True),
        KnownPass((1, "late"), 3.0, True),
    ]
    turns = [(0, "busy"), (0, "late"), (0, "ahead"), (0, "new"), (1, "new"), (2, "new")]
    assert begin_turns(known, turns) == {
        (0, "busy"): 7.0,
        (0, "late"): 7.0,
        (0, "ahead"): 8.0,
        (0, "new"): 7.0,
        (1, "new"): 3.0,
        (2, "new"): 0.0,
    }


def test_an_owner_with_a_thousand_tasks_gets_half_beside_one_with_a_few() -> None:
    found = [
        a_demand(1, share="much", count=256),
        a_demand(2, share="much", count=256),
        a_demand(3, share="little", count=3, since=NOW + 5),
    ]
    fleet = [a_worker(f"w{n}", unstarted=0) for n in range(1)]
    made = plan(fleet, found, NOW, unstarted_max=6, turns=begun(found))
    assert Counter({each.job_id: each.count for each in made.placements}) == {1: 3, 3: 3}
    assert made.waiting == {(1, None): 253, (2, None): 256}
    assert explain(fleet, found, found[2], now=NOW, turns=begun(found)).code == "fits"


def test_gangs_are_whole_and_cost_their_share_all_of_it() -> None:
    found = [
        a_gang(1, 4, share="ann"),
        a_demand(2, share="ann", count=4, since=NOW + 1),
        a_demand(3, share="bob", count=9),
    ]
    made = plan([a_worker("w1")], found, NOW, unstarted_max=8, turns=begun(found))
    assert Counter({each.job_id: each.count for each in made.placements}) == {1: 4, 3: 4}


@settings(max_examples=40)
@given(workers(), demands(), some.lists(OWNERS, min_size=1), some.one_of(some.none(), some.just(9)))
def test_a_shared_plan_keeps_every_rule_of_a_plan(
    fleet: list[WorkerView], waiting: list[Demand], owners: list[str], most: int | None
) -> None:
    """The same rooms, whole gangs, and every task placed or left waiting."""
    shared = [
        demand._replace(share=owners[position % len(owners)])
        for position, demand in enumerate(waiting)
    ]
    made = plan(fleet, shared, NOW, placements_max=most, turns=begun(shared, WEIGHTS))
    placed: Counter[tuple[int, str | None]] = Counter()
    for each in made.placements:
        placed[each.job_id, each.avoid] += each.count
    wanted: Counter[tuple[int, str | None]] = Counter()
    for demand in shared:
        wanted[demand.job_id, demand.avoid] += max(demand.count, 0)
        if demand.gang is not None:
            assert placed[demand.job_id, demand.avoid] in (0, demand.count)
    assert placed + Counter(made.waiting) == wanted


@settings(max_examples=40)
@given(workers(), demands())
def test_one_share_is_served_as_without_shares(
    fleet: list[WorkerView], waiting: list[Demand]
) -> None:
    made = plan(fleet, waiting, NOW, turns=begun(waiting))
    plain = plan(fleet, waiting, NOW)
    assert made.waiting == plain.waiting
