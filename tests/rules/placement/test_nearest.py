"""The workers that come nearest: who, in which order, and what each of them lacks."""

from hypothesis import given, settings

from holdfast.model.workers.resources import Capacity, Constraint
from holdfast.rules.placement.nearest import NEAREST_MAX
from holdfast.rules.placement.scheduler import Demand, WorkerView, explain
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


def nearest(fleet: list[WorkerView], demand: Demand, *others: Demand) -> list[str]:
    reason = explain(fleet, [*others, demand], demand, now=NOW)
    return [str(miss) for miss in reason.nearest]


def test_each_worker_says_all_that_it_lacks_with_numbers() -> None:
    shape = a_shape(EU, cpu=3, memory=4 * GB, gpu=1)
    fleet = [
        a_worker("a", cpu=4, gpu=1, used=Capacity(cpu=2.5), attributes={"region": "eu"}),
        a_worker("b", used=Capacity(memory=30 * GB), attributes={"region": "us"}),
    ]
    assert nearest(fleet, a_demand(shape=shape)) == [
        "worker a: 1.5 of 4 cpu free (needs 3)",
        "worker b: fails region=eu, no gpu (needs 1), 2GB of 32GB memory free (needs 4GB)",
    ]
    [near, far] = explain(fleet, [], a_demand(shape=shape), now=NOW).nearest
    [lack] = near.lacks
    assert (lack.code, lack.resource) == ("lacks_resources", "cpu")
    assert (lack.need, lack.free, lack.total) == (3.0, 1.5, 4.0)
    codes = ["fails_constraints", "lacks_resources", "lacks_resources"]
    assert [lack.code for lack in far.lacks] == codes


def test_what_waiting_brings_is_nearer_than_what_it_does_not() -> None:
    fleet = [
        a_worker("drains", accepts=False, why_not="draining"),
        a_worker("small", cpu=7),
        a_worker("full", used=Capacity(cpu=8)),
        a_worker("half", used=Capacity(cpu=4)),
        a_worker("twice", used=Capacity(cpu=1, memory=32 * GB)),
    ]
    found = nearest(fleet, a_demand(shape=a_shape(cpu=8, memory=GB)))
    assert [text.split(":")[0] for text in found] == [
        "worker half", "worker full", "worker twice", "worker drains", "worker small",
    ]  # fmt: skip
    assert found[3] == "worker drains: takes no work (draining)"
    assert found[4] == "worker small: 7 of 7 cpu free (needs 8)"


def test_slots_ports_and_workers_kept_for_others_are_named() -> None:
    large = a_demand(4180, a_shape(cpu=8), since=NOW - 60)
    fleet = [a_worker("kept", used=Capacity(cpu=4)), a_worker("slots", cpu=2, unstarted=8)]
    assert nearest(fleet, a_demand(4181), large) == [
        "worker kept: kept for job 4180",
        "worker slots: all 8 build slots taken",
    ]
    ports = a_demand(shape=a_shape(ports=3))
    assert nearest([a_worker("w", ports_free=2)], ports) == ["worker w: 2 ports free (needs 3)"]


def test_a_gang_names_workers_without_room_for_a_member() -> None:
    fleet = [a_worker("a", cpu=2), a_worker("b", cpu=1, used=Capacity(cpu=1))]
    assert nearest(fleet, a_gang(members=3)) == ["worker b: 0 of 1 cpu free (needs 1)"]


def test_what_fits_misses_nobody() -> None:
    assert nearest([a_worker(), a_worker("w2", used=Capacity(cpu=8))], a_demand()) == []


def test_of_thousands_of_workers_the_nearest_few_are_named() -> None:
    fleet = [a_worker(f"w{n}", used=Capacity(cpu=8 - n / 1000)) for n in range(5000)]
    found = nearest(fleet, a_demand(shape=a_shape(cpu=8)))
    assert len(found) == NEAREST_MAX
    assert found[0] == "worker w4999: 4.999 of 8 cpu free (needs 8)"


@settings(max_examples=200)
@given(workers(), demands().filter(bool))
def test_who_is_named_lacks_something_and_what_is_short_is_short(
    fleet: list[WorkerView], waiting: list[Demand]
) -> None:
    reason = explain(fleet, waiting, waiting[0], now=NOW)
    assert len({miss.worker_id for miss in reason.nearest}) == len(reason.nearest)
    for miss in reason.nearest:
        assert miss.lacks
        for lack in miss.lacks:
            if lack.resource is not None:
                assert lack.need is not None
                assert lack.free is not None
                assert lack.free < lack.need
                assert lack.total is None or lack.free <= lack.total
