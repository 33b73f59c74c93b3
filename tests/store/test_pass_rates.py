"""Rates as claims pass them: by the database's time, never more than allowed, and told when."""

import math
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.operations.usage_limits.tend import Clocks, Gates
from tests.audits import assert_audit_is_silent
from tests.clock import Clock
from tests.limits import count_rows, set_limit
from tests.world import World

SECOND = timedelta(seconds=1)


@pytest.fixture
async def world(ledger: Ledger, clock: Clock) -> AsyncIterator[World]:
    """A ledger whose clock stands still, and of which the audit has nothing to say at the end."""
    await clock.fetch(
        "create or replace function holdfast.now() returns timestamptz language sql volatile as "
        "$$select timestamptz '2030-01-01' + (select shift from public.test_clock)$$"
    )
    world = World(ledger, clock)
    await world.watch()
    yield world
    await assert_audit_is_silent(ledger.database)


async def set_rate(world: World, scope: str, most: float, **fields: Any) -> None:
    """Set a rate per second."""
    await set_limit(
        world.clock, "rate", scope, most, **{"kind": "bucket", "period": SECOND} | fields
    )


@pytest.mark.parametrize("scope", ["queue", "owner", "key"])
async def test_a_token_bucket_lets_start_what_it_holds_and_what_comes_in(
    world: World, scope: str
) -> None:
    await set_rate(world, scope, 2, burst=4)
    await world.submit(list(range(40)), concurrency_key="k")
    await world.submit([40], queue="other", owner="ann")
    assert len(await world.claim(10)) == 4
    assert await world.claim(10) == []
    await world.clock.advance(0.4)
    assert await world.claim(10) == []
    await world.clock.advance(0.2)
    assert len(await world.claim(10)) == 1
    await world.clock.advance(60)
    assert len(await world.claim(10)) == 4
    assert len(await world.claim(10, queue="other")) == 1
    started = 9
    for _ in range(10):
        await world.clock.advance(1)
        started += len(await world.claim(10))
    assert started == 9 + 20


@pytest.mark.parametrize("scope", ["queue", "owner"])
async def test_a_window_never_lets_more_start_in_any_period(world: World, scope: str) -> None:
    await set_limit(world.clock, "window", scope, 5, kind="window", period=SECOND)
    await world.submit(list(range(200)))
    starts: list[float] = []
    now = 0.0
    for step in range(100):
        starts += [now] * len(await world.claim(1 + step % 3))
        await world.clock.advance(0.07)
        now += 0.07
    for start in starts:
        assert sum(start <= other < start + 1 for other in starts) <= 5
    assert len(starts) >= math.floor(7 * 5 / 1.15)


@pytest.mark.parametrize("scope", ["queue", "owner"])
async def test_a_window_remembers_all_of_its_period_for_those_who_come_later(
    world: World, scope: str
) -> None:
    await set_limit(world.clock, "window", scope, 2, kind="window", period=SECOND)
    await world.submit([1, 2])
    assert len(await world.claim(2)) == 2
    await world.clock.advance(0.9)
    await world.submit([3])
    assert await world.claim(1) == []
    await world.clock.advance(0.2)
    assert [claim.input for claim in await world.claim(1)] == ["3"]


async def test_a_task_counts_by_its_slots(world: World) -> None:
    await set_rate(world, "owner", 1, burst=3)
    await world.submit([1, 2], slots=3)
    await world.submit([3], slots=4)
    await world.submit([4])
    assert [claim.input for claim in await world.claim(4)] == ["1"]
    await world.clock.advance(2)
    assert await world.claim(4) == []
    await world.clock.advance(1.001)
    assert [claim.input for claim in await world.claim(4)] == ["2"]
    await world.clock.advance(1.001)
    assert [claim.input for claim in await world.claim(4)] == ["4"]
    assert await count_rows(world.clock, "gated") == 1


@pytest.mark.parametrize("scope", ["queue", "owner"])
async def test_whoever_is_given_nothing_hears_when_there_is_more(
    world: World, ledger: Ledger, scope: str
) -> None:
    await set_rate(world, scope, 0.5, burst=1)
    await world.submit([1, 2])
    told: list[News] = []
    await world.claim(2)
    ledger.on_commit = told.append
    assert await world.claim(2) == []
    assert [queue for news in told for queue, _ in news.openings][:1] == ["q"]
    assert min(seconds for news in told for _, seconds in news.openings) == pytest.approx(2)


async def test_a_rate_and_slots_hold_together(world: World) -> None:
    await set_rate(world, "owner", 1, burst=2)
    await set_limit(world.clock, "slots", "queue", 1)
    await world.submit([1, 2, 3])
    [first] = await world.claim(3)
    await world.succeed(first)
    [second] = await world.claim(3)
    await world.succeed(second)
    assert await world.claim(3) == []
    await world.clock.advance(1.001)
    assert [claim.input for claim in await world.claim(3)] == ["3"]


async def test_a_clock_that_is_put_back_takes_nothing_out_of_a_bucket(world: World) -> None:
    await set_rate(world, "owner", 2, burst=4)
    await world.submit(list(range(9)))
    assert len(await world.claim(3)) == 3
    await world.clock.advance(-3600)
    await world.submit(list(range(9)))
    assert len(await world.claim(9)) == 1
    await world.clock.advance(1)
    assert len(await world.claim(9)) == 2


async def look_behind_limits(world: World) -> None:
    """Run the chores that keep what waits for a rate going."""
    await Clocks(world.ledger).look()
    await Gates(world.ledger).look()


@pytest.mark.parametrize("scope", ["queue", "owner"])
@pytest.mark.parametrize("kind", ["window", "bucket"])
async def test_a_clock_that_is_put_back_holds_a_rate_up_for_a_period_at_most(
    world: World, scope: str, kind: str
) -> None:
    burst = {"burst": 5} if kind == "bucket" else {}
    await set_limit(world.clock, "rate", scope, 5, kind=kind, period=10 * SECOND, **burst)
    await world.submit(list(range(40)))
    started = len(await world.claim(3))
    await world.clock.advance(1)
    started += len(await world.claim(9))
    assert started == 5
    assert await world.claim(9) == []
    await world.clock.advance(-3600)
    for _ in range(9):
        await look_behind_limits(world)
        if kind == "window":
            assert await world.claim(9) == [], "all five may have been a moment ago"
        else:
            started += len(await world.claim(9))
        await world.clock.advance(1)
    await world.clock.advance(1.2)
    for _ in range(3):  # a rate that nobody came for in time is let go by the chore
        await look_behind_limits(world)
        started += len(await world.claim(9))
        await world.clock.advance(0.01)
    assert started == 10


async def test_turns_that_are_taken_by_name_stay_in_the_future(world: World) -> None:
    limit_id = await set_limit(world.clock, "stripe", "name", 1, kind="window", period=SECOND)
    await world.clock.fetch(
        "with bucket as (insert into holdfast.limit_buckets (limit_id, value) "
        "values ($1, 'stripe') returning bucket_id) "
        "insert into holdfast.limit_spent select bucket_id, holdfast.now() + '30 s', 1 from bucket",
        limit_id,
    )
    assert await Clocks(world.ledger).look() is False
    [row] = await world.clock.fetch("select slice - holdfast.now() from holdfast.limit_spent")
    assert row[0] == 30 * SECOND
