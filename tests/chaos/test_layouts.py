"""A plan breaks only what its profile has, and the work of a profile finds workers."""

import pytest

from chaos.faults.plan import PROFILES, SERVERS
from chaos.layouts import LAYOUTS, PLACED_WORK, QUEUE_WORK
from chaos.workload.customers import KINDS

PROFILE_NAMES = sorted(PROFILES)


def test_each_profile_has_a_layout() -> None:
    assert LAYOUTS.keys() == PROFILES.keys()


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_what_a_plan_breaks_is_there(profile: str) -> None:
    layout = LAYOUTS[profile]
    there = {"postgres", "customers", *SERVERS, *layout.workers, "customers to servers"}
    there |= {f"{server} to postgres" for server in SERVERS}
    there |= {f"{worker} to servers" for worker in layout.workers}
    if not layout.upgrades:
        there |= {f"servers to {worker}" for worker in layout.called}
    if layout.has_pooler:
        there.add("pooler")
    if layout.has_sqs:
        there |= {"sqs", "servers to sqs", "workers to sqs"}
    targets = {target for kind in PROFILES[profile] for target in kind.targets}
    assert targets <= there
    kinds = {kind.name for kind in PROFILES[profile]}
    assert ("postgres fails over" in kinds) is layout.has_standby
    assert ("worker changes version" in kinds) is layout.upgrades


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_work_is_submitted_for_workers_that_are_there(profile: str) -> None:
    layout = LAYOUTS[profile]
    assert set(layout.work) <= KINDS.keys()
    assert len(layout.workers) == 6
    placed = set(layout.work) & set(PLACED_WORK)
    queued = set(layout.work) & set(QUEUE_WORK) - {"cancel"}
    assert bool(placed) == bool(layout.called)
    assert bool(queued) == bool(layout.claiming)


def test_all_kinds_of_work_are_in_some_profile() -> None:
    assert {kind for layout in LAYOUTS.values() for kind in layout.work} == KINDS.keys()
