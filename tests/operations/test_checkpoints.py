"""Checkpoints: one per task, written by whoever holds the lease, found by the next attempt."""

from uuid import uuid4

import asyncpg
import pytest

from holdfast.errors import Invalid, LeaseConflict, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.operations.checkpoints import load_checkpoint, save_checkpoint
from holdfast.operations.claiming.claim import Claim
from holdfast.store.tables.output.checkpoints import Checkpoint
from tests.world import World, fence_of


@pytest.fixture
async def mine(world: World) -> Claim:
    """A task that has been claimed."""
    await world.submit(max_retries_failure=5, backoff={"base": 0.0})
    [claim] = await world.claim()
    return claim


async def retry(world: World, claim: Claim) -> Claim:
    """Let an attempt fail, and claim the next one."""
    await world.fail(claim)
    await world.run_chores()
    [again] = await world.claim()
    return again


async def test_the_next_attempt_finds_what_the_last_one_saved(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    assert await load_checkpoint(ledger, fence_of(mine)) == Checkpoint(None, None)
    await save_checkpoint(ledger, fence_of(mine), '{"row": 1}')
    await save_checkpoint(ledger, fence_of(mine), '{"row":  2}')
    again = await retry(world, mine)
    assert await load_checkpoint(ledger, fence_of(again)) == Checkpoint(0, '{"row":  2}')
    await save_checkpoint(ledger, fence_of(again), "3")
    assert await load_checkpoint(ledger, fence_of(again)) == Checkpoint(1, "3")


async def test_null_is_a_checkpoint_too(ledger: Ledger, mine: Claim) -> None:
    await save_checkpoint(ledger, fence_of(mine), "null")
    assert await load_checkpoint(ledger, fence_of(mine)) == Checkpoint(0, "null")


async def test_each_task_has_its_own(ledger: Ledger, world: World) -> None:
    await world.submit(inputs=[1, 2])
    one, other = await world.claim(2)
    await save_checkpoint(ledger, fence_of(one), '"one"')
    assert await load_checkpoint(ledger, fence_of(other)) == Checkpoint(None, None)


async def test_a_stranger_neither_saves_nor_loads(ledger: Ledger, mine: Claim) -> None:
    await save_checkpoint(ledger, fence_of(mine), "1")
    strangers = [
        Fence(mine.task_id, mine.attempt, uuid4()),
        Fence(mine.task_id, mine.attempt + 1, mine.lease_token),
    ]
    for stranger in strangers:
        with pytest.raises(LeaseConflict):
            await save_checkpoint(ledger, stranger, "2")
        with pytest.raises(LeaseConflict):
            await load_checkpoint(ledger, stranger)
    assert await load_checkpoint(ledger, fence_of(mine)) == Checkpoint(0, "1")


async def test_a_stale_attempt_does_not_overwrite_what_a_later_one_has_saved(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    again = await retry(world, mine)
    await save_checkpoint(ledger, fence_of(again), "2")
    with pytest.raises(LeaseConflict):
        await save_checkpoint(ledger, fence_of(mine), "1")
    assert await load_checkpoint(ledger, fence_of(again)) == Checkpoint(1, "2")


async def test_not_even_one_whose_lease_ended_while_it_was_saving(
    ledger: Ledger, world: World, mine: Claim, database_url: str
) -> None:
    """A later attempt's checkpoint is there although the lease is the old one's."""
    await save_checkpoint(ledger, fence_of(mine), "1")
    later = await asyncpg.connect(database_url)
    await later.execute("update holdfast.checkpoints set attempt = 1, checkpoint = '2'")
    await later.close()
    with pytest.raises(LeaseConflict):
        await save_checkpoint(ledger, fence_of(mine), "3")
    [row] = await world.clock.fetch("select attempt, checkpoint from holdfast.checkpoints")
    assert tuple(row) == (1, "2")


async def test_an_attempt_that_is_ending_may_still_save(
    ledger: Ledger, world: World, mine: Claim
) -> None:
    await world.cancel_task(mine.task_id, "hard")
    await save_checkpoint(ledger, fence_of(mine), "1")
    assert await load_checkpoint(ledger, fence_of(mine)) == Checkpoint(0, "1")
    await world.complete(mine, "killed")
    with pytest.raises(LeaseConflict):
        await save_checkpoint(ledger, fence_of(mine), "2")


async def test_what_is_no_json_or_too_large_is_refused(ledger: Ledger, mine: Claim) -> None:
    limit = ledger.limits.input_bytes_max
    for text in ("", "{", "NaN", '"\\u0000"', "[" * 200 + "]" * 200):
        with pytest.raises(Invalid) as refused:
            await save_checkpoint(ledger, fence_of(mine), text)
        assert refused.value.field == "checkpoint"
    with pytest.raises(TooLarge) as large:
        await save_checkpoint(ledger, fence_of(mine), f'"{"x" * limit}"')
    assert (large.value.field, large.value.limit) == ("checkpoint", limit)
    for call in (save_checkpoint(ledger, _bad(mine), "1"), load_checkpoint(ledger, _bad(mine))):
        with pytest.raises(Invalid) as bad:
            await call
        assert bad.value.field == "attempt"
    assert await load_checkpoint(ledger, fence_of(mine)) == Checkpoint(None, None)


def _bad(claim: Claim) -> Fence:
    return Fence(claim.task_id, -1, claim.lease_token)
