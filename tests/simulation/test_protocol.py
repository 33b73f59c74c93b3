"""Rules, scheduler and the protocol of placed work, in small virtual worlds drawn from seeds.

What must hold is checked at every step, by `virtual_world`. A world that breaks is made smaller
and told as a story.
"""

import random
import re

import pytest

from tests.simulation.scenario import Fault, JobPlan, Scenario, draw, shrink
from tests.simulation.virtual_world import World

QUICK = 300
LONG = 3000
STORY_LINES_MAX = 60
KIND_LENGTH_MAX = 30


def find_problem(scenario: Scenario) -> tuple[str, list[str]] | None:
    """Play a world out; says what broke, and the story up to there."""
    world = World(scenario)
    try:
        world.play()
    except AssertionError as problem:
        return f"{problem}", world.story
    return None


def find_kind(scenario: Scenario) -> str | None:
    """Say what kind of thing breaks: the same, whichever task or host it befalls."""
    found = find_problem(scenario)
    return None if found is None else re.sub(r"\d+", "N", found[0])[:KIND_LENGTH_MAX]


def check(seed: int) -> None:
    """Play the world of a seed; if it breaks, fail with the shortest story that does."""
    scenario = draw(seed)
    if (kind := find_kind(scenario)) is None:
        return
    smallest = shrink(scenario, lambda smaller: find_kind(smaller) == kind)
    found = find_problem(smallest)
    assert found is not None, "what is left breaks as well"
    problem, story = found
    told = "\n".join(story[-STORY_LINES_MAX:])
    pytest.fail(f"seed {seed}: {problem}\n\n{smallest}\n\n{told}", pytrace=False)


def test_nothing_breaks_in_some_hundred_worlds() -> None:
    for seed in range(QUICK):
        check(seed)


@pytest.mark.nightly
def test_nothing_breaks_in_some_thousand_worlds() -> None:
    first = random.SystemRandom().randrange(10**9)
    for seed in range(first, first + LONG):
        check(seed)


def test_a_seed_repeats_its_world_step_by_step() -> None:
    worlds = [World(draw(16)) for _ in range(2)]
    for world in worlds:
        world.play()
    assert worlds[0].story == worlds[1].story
    assert len(worlds[0].story) > 20


def test_what_breaks_is_told_as_a_short_story() -> None:
    def is_bad(scenario: Scenario) -> bool:
        """Take it for a bug that code is killed because its lease runs out."""
        world = World(scenario)
        world.play()
        return any(line.endswith("has ended, lease") for line in world.story)

    seed = next(seed for seed in range(QUICK) if len(draw(seed).faults) > 2 and is_bad(draw(seed)))
    smallest = shrink(draw(seed), is_bad)
    assert (len(smallest.jobs), len(smallest.faults)) == (1, 1)
    assert (smallest.hosts, smallest.jobs[0].tasks) == (1, 1)


def test_a_worker_that_dies_leaves_its_code_to_the_next_one() -> None:
    world = World(
        Scenario(jobs=(JobPlan(seconds=20.0),), faults=(Fault("worker dies", 5.0, 1.0, host=0),))
    )
    world.play()
    told = "\n".join(world.story)
    assert told.count("its code begins") == 1
    assert "job 1 is SUCCEEDED" in told


def test_a_cut_link_stops_code_before_its_lease_is_over_and_it_runs_again() -> None:
    cut = Fault("cut", 5.0, 60.0, host=0)
    world = World(Scenario(hosts=1, jobs=(JobPlan(seconds=30.0, lease=12.0),), faults=(cut,)))
    world.play()
    told = [line[9:] for line in world.story]
    killed = next(n for n, line in enumerate(told) if line.endswith("its code has ended, lease"))
    assert told.index("1.0 attempt 1: its code begins on host-0") > killed
    assert told[-1] == "job 1 is SUCCEEDED"
