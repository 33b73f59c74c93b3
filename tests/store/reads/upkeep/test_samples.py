"""What servers have counted, added up step by step."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from holdfast.rules.quantiles import RANGES
from holdfast.store.database import Database
from holdfast.store.reads.upkeep import samples
from holdfast.store.reads.upkeep.samples import Step, choose_step, list_steps
from holdfast.store.tables.upkeep.samples import STEPS, Counts, Tally, TypeTally, add_sample
from holdfast.wire.overview import WINDOW_SECONDS_MAX
from tests.steps import to_the_start_of_a_step
from tests.world import World

HOUR = 3600


def a_tally(waits: dict[int, int] | None = None, **counts: int) -> Tally:
    """Count so many of each, and so many waits in each range."""
    return Tally(
        counts=list(Counts(**counts)),
        waits=[(waits or {}).get(number, 0) for number in range(RANGES)],
    )


async def add(
    database: Database, server_id: str, tally: Tally, depth: int = 0, running: int = 0
) -> None:
    async with database.transaction() as tx:
        await add_sample(tx, server_id, tally, depth=depth, running=running)


async def read(database: Database, window_seconds: int = HOUR) -> list[Step | None]:
    """Read the steps of a window; None where nothing is known."""
    async with database.transaction() as tx:
        begins = list_steps(await tx.now(), window_seconds)
        step = choose_step(window_seconds)
        known = await samples.read_steps(tx, begins[0], step_seconds=step)
    assert set(known) <= set(begins)
    return [known.get(at) for at in begins]


@pytest.mark.parametrize(
    ("window", "step", "count"),
    [
        (600, 10, 60),
        (3600, 10, 360),
        (3601, 60, 61),
        (86_400, 300, 288),
        (7 * 86_400, 1800, 336),
    ],
)
def test_a_window_is_shown_in_no_more_steps_than_a_chart_has_room_for(
    window: int, step: int, count: int
) -> None:
    now = datetime(2026, 5, 4, 3, 2, 7, tzinfo=UTC)
    steps = list_steps(now, window)
    assert (choose_step(window), len(steps)) == (step, count)
    assert steps[-1] <= now < steps[-1] + timedelta(seconds=step)
    assert {after - before for before, after in pairwise(steps)} == {timedelta(seconds=step)}
    assert all(at.timestamp() % step == 0 for at in steps)


async def test_servers_add_up_and_the_newest_knows_the_depth(
    world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    some = {name: count for count, name in enumerate(Counts._fields, 1)}
    await add(database, "a", a_tally({0: 1, 3: 5}, **some), depth=9, running=1)
    await add(database, "a", a_tally({0: 1}, **some), depth=8, running=2)
    await add(database, "b", a_tally({16: 2}, **some), depth=3, running=5)
    counts = Counts(*(3 * count for count in some.values()))
    waits = [2, 0, 0, 5, *[0] * 12, 2]
    for window in (600, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR):
        steps = await read(database, window)
        assert steps[-1] == Step(counts, waits, 3, 5), window
        assert steps[:-1] == [None] * (len(steps) - 1), "nothing is known of what was before"


async def test_a_step_without_rows_is_unknown_and_one_without_moves_is_zero(
    world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    await add(database, "a", a_tally(succeeded=1))
    await world.clock.advance(20)
    await add(database, "a", a_tally())
    steps = await read(database)
    known = [None if step is None else step.counts.succeeded for step in steps]
    assert known[-4:] == [None, 1, None, 0]
    # Of longer steps these are one.
    long = await read(database, 24 * HOUR)
    assert long[-1] is not None
    assert long[-1].counts.succeeded == 1


async def test_failures_are_counted_by_type_as_far_back_as_is_asked(
    world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    await add(database, "a", Tally(types={"old": TypeTally(9, 9)}))
    await world.clock.advance(120)
    await add(database, "a", Tally(types={"mail": TypeTally(10, 2), "fine": TypeTally(50)}))
    await add(database, "a", Tally(types={"mail": TypeTally(10, 1)}))
    await add(database, "b", Tally(types={"mail": TypeTally(5, 4)}))
    async with database.transaction() as tx:
        since = await tx.now() - timedelta(seconds=60)
        found = await samples.count_failures_by_type(tx, since, failures_min=5)
        assert found == [("mail", 25, 7)]
        before = since - timedelta(seconds=120)
        everything = await samples.count_failures_by_type(tx, before, failures_min=0)
    assert everything == [("old", 9, 9), ("mail", 25, 7), ("fine", 50, 0)]


async def test_the_times_of_types_are_added_over_minutes_and_servers(
    world: World, database: Database
) -> None:
    await to_the_start_of_a_step(world)
    waits, runs = [0] * RANGES, [0] * RANGES
    waits[0], runs[3] = 1, 2
    for server_id, seconds in (("a", 0), ("a", 0), ("b", 60)):
        await world.clock.advance(seconds)
        mail = TypeTally(2, 1, waits=list(waits), runs=list(runs))
        await add(database, server_id, Tally(types={"mail": mail, "other": TypeTally(1)}))
    async with database.transaction() as tx:
        since = await tx.now() - timedelta(hours=1)
        found = await samples.read_type_times(tx, since, ["mail", "none"])
    waits[0], runs[3] = 3, 6
    assert found == {"mail": (6, 3, waits, runs)}


def test_there_is_a_step_for_the_longest_window() -> None:
    assert STEPS[-1] * samples.STEPS_MAX >= WINDOW_SECONDS_MAX
