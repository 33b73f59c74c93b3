"""The table of leases through its functions."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.tables.work.leases import (
    find_leases,
    has_live_lease,
    list_asked_to_stop,
    list_claimed_with_key,
    list_leases_of_worker,
    list_reapable,
    lock_leases,
    release_leases,
    renew_leases,
    request_soft_cancel,
)
from tests.world import World, fence_of

GRACE = timedelta(seconds=20)


async def test_a_lease_is_renewed_by_whoever_holds_it(world: World, tx: Transaction) -> None:
    await world.submit([1, 2], lease=40.0)
    mine, other = await world.claim(2)
    stranger = fence_of(other)._replace(lease_token=uuid4())
    [renewed] = await renew_leases(tx, [fence_of(mine), stranger])
    assert (renewed.job_id, renewed.task_index, renewed.attempt) == (*mine.task_id, 0)
    assert renewed.expires_at - renewed.now == timedelta(seconds=40)
    assert await find_leases(tx, [fence_of(mine), stranger]) == {fence_of(mine)}
    assert await has_live_lease(tx, fence_of(mine))
    assert not await has_live_lease(tx, stranger)


async def test_leases_are_found_by_task_worker_key_and_deadline(
    world: World, tx: Transaction
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    [locked] = (await lock_leases(tx, [mine.task_id, TaskId(job_id, 9)])).values()
    assert (locked.lease_token, locked.worker_id, locked.cancel) == (mine.lease_token, "w1", None)
    for spared, found in (([], [mine.task_id]), ([job_id], [])):
        bounds: Any = {"except_jobs": spared, "batch_max": 10}
        assert await list_leases_of_worker(tx, "w1", also_ending=False, **bounds) == found
    assert await list_claimed_with_key(tx, "w1", "none") == []
    await world.clock.advance(60)
    assert await list_reapable(tx, waiting=False, except_jobs=[], batch_max=10) == [mine.task_id]
    assert await list_reapable(tx, waiting=False, except_jobs=[job_id], batch_max=10) == []
    assert await list_reapable(tx, waiting=True, except_jobs=[], batch_max=10) == []


async def test_what_was_asked_to_stop_is_listed_and_goes_when_released(
    ledger: Ledger, world: World
) -> None:
    await world.submit([1, 2])
    soft, hard = await world.claim(2)
    await world.cancel_task(hard.task_id, "hard")
    async with ledger.database.transaction() as tx:
        asked = await request_soft_cancel(tx, [(soft.task_id, GRACE)], reason="enough")
        assert asked == [soft.task_id]
        stops = await list_asked_to_stop(tx, ["w1"])
        assert {(stop.task_index, stop.ending) for stop in stops} == {(0, False), (1, True)}
        released = await release_leases(tx, [soft.task_id, hard.task_id])
        assert released == [(*hard.task_id, None, None)]
    assert await world.lease(hard.task_id) is None
