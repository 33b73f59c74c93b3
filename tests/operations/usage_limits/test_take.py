"""An attempt asks for its turn at a rate: exact whoever else asks, and for who holds a lease."""

import asyncio

import pytest

from holdfast.errors import Invalid, LeaseConflict, NotFound, Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.work.fence import Fence
from holdfast.operations.usage_limits.put import put_limit
from holdfast.operations.usage_limits.take import Wait, take_turn
from holdfast.store.database import Database
from tests.usage_limits import FIVE
from tests.world import World, fence_of

BUCKET = UsageLimit(scope="name", kind="bucket", most=1, period=10, burst=3)
WINDOW = UsageLimit(scope="name", kind="window", most=3, period=10)


@pytest.fixture
async def mine(world: World) -> Fence:
    """The lease of an attempt that runs."""
    await world.submit()
    [claim] = await world.claim()
    await world.start(claim)
    return fence_of(claim)


async def take(ledger: Ledger, fence: Fence, count: float = 1.0, patience: float = 60.0) -> Wait:
    return await take_turn(ledger, fence, "stripe", count=count, patience=patience)


@pytest.mark.parametrize("limit", [BUCKET, WINDOW], ids=["bucket", "window"])
async def test_turns_are_given_in_order_by_any_server(
    ledger: Ledger, database_url: str, mine: Fence, limit: UsageLimit
) -> None:
    await put_limit(ledger, "stripe", limit, actor="ann")
    async with Database(database_url) as database:
        ledgers = [ledger, Ledger(database)] * 3
        waits = [await take(each, mine) for each in ledgers]
    assert all(wait.is_granted for wait in waits)
    seconds = [wait.seconds or 0.0 for wait in waits]
    assert seconds[:3] == [0, 0, 0]
    if limit is BUCKET:
        assert seconds[3:] == pytest.approx([10, 20, 30], abs=2)
    else:
        assert seconds[3:] == pytest.approx([10.1] * 3, abs=2)


@pytest.mark.parametrize("limit", [BUCKET, WINDOW], ids=["bucket", "window"])
async def test_of_those_who_ask_at_once_no_more_go_on_than_may(
    ledger: Ledger, mine: Fence, limit: UsageLimit
) -> None:
    await put_limit(ledger, "stripe", limit, actor="ann")

    async def ask() -> Wait:
        while True:
            try:
                return await take(ledger, mine, patience=0.0)
            except Unavailable:
                continue

    waits = await asyncio.gather(*(ask() for _ in range(8)))
    assert sum(wait.is_granted for wait in waits) == 3
    assert all((wait.seconds or 0) > 0 for wait in waits if not wait.is_granted)


async def test_a_turn_that_comes_too_late_takes_nothing(
    ledger: Ledger, world: World, mine: Fence
) -> None:
    await put_limit(ledger, "stripe", BUCKET, actor="ann")
    await take(ledger, mine, count=3.0)
    for _ in range(3):
        late = await take(ledger, mine, patience=5.0)
        assert not late.is_granted
        assert late.seconds == pytest.approx(10, abs=2)
    await world.clock.advance(10)
    assert (await take(ledger, mine, patience=0.0)).is_granted


async def test_a_window_forgets_what_it_has_left_behind(
    ledger: Ledger, world: World, mine: Fence
) -> None:
    await put_limit(ledger, "stripe", WINDOW, actor="ann")
    for _ in range(4):
        assert (await take(ledger, mine, count=3.0, patience=0.0)).is_granted
        assert not (await take(ledger, mine, patience=0.0)).is_granted
        await world.clock.advance(10.2)
    assert await world.count("limit_spent") == 1


async def test_who_has_lost_the_lease_takes_nothing(
    ledger: Ledger, world: World, mine: Fence
) -> None:
    await put_limit(ledger, "stripe", BUCKET, actor="ann")
    await world.cancel_job(mine.task_id.job_id)
    with pytest.raises(LeaseConflict, match="stop the attempt"):
        await take(ledger, mine)
    assert await world.count("limit_buckets") == 0


async def test_what_cannot_be_given_is_refused_with_the_field(
    ledger: Ledger, world: World, mine: Fence
) -> None:
    with pytest.raises(NotFound, match="no limit stripe"):
        await take(ledger, mine)
    await put_limit(ledger, "stripe", BUCKET, actor="ann")
    for count in (0.0, -1.0, float("nan"), 3.5):
        with pytest.raises(Invalid, match="count: is"):
            await take(ledger, mine, count=count)
    with pytest.raises(Invalid, match="patience: is 3601; give 0 to 3600"):
        await take(ledger, mine, patience=3601.0)
    await put_limit(ledger, "mail", FIVE, actor="ann")
    with pytest.raises(Invalid, match="name: 'mail' is per queue; ask for one of scope 'name'"):
        await take_turn(ledger, mine, "mail", count=1, patience=0)
    slots = UsageLimit(scope="name", kind="concurrency", most=2)
    await put_limit(ledger, "slots", slots, actor="ann")
    with pytest.raises(Invalid, match="name: 'slots' is one of slots; ask for a rate"):
        await take_turn(ledger, mine, "slots", count=1, patience=0)


async def test_a_closed_limit_never_gives_a_turn(ledger: Ledger, mine: Fence) -> None:
    closed = UsageLimit(scope="name", kind="window", most=0, period=1)
    await put_limit(ledger, "stripe", closed, actor="ann")
    assert await take(ledger, mine) == Wait(None, False)
