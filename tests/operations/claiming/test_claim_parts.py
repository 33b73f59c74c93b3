"""A batch of claims takes several transactions: what is committed is answered, whatever follows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.errors import LeaseConflict
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.register import Registration, register
from holdfast.store.database import Database, LockTimeout
from tests.world import World


@asynccontextmanager
async def held(database: Database, job_id: int) -> AsyncIterator[None]:
    """Hold the row of a job, as somebody's open transaction would: its counts cannot change."""
    async with database.transaction() as tx:
        await tx.connection.execute(
            "select from holdfast.jobs where job_id = $1 for update", job_id
        )
        yield


async def test_a_group_that_fails_fails_alone(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=2, queue="a")
    blocked = await world.submit(queue="b")
    requests = [ClaimRequest("w1", ("a",)), ClaimRequest("w2", ("b",))]
    async with held(ledger.database, blocked):
        granted, failed = await claim(ledger, requests)
    assert isinstance(granted, list)
    assert [mine.task_id.task_index for mine in granted] == [0]
    assert isinstance(failed, LockTimeout)
    assert await world.count("leases") == 1


async def test_what_a_first_round_committed_is_answered_if_the_second_fails(
    ledger: Ledger, world: World
) -> None:
    stale = await world.submit(priority=9)
    await cancel_job(ledger, stale, "hard", actor="operator")
    fresh = await world.submit(priority=5)
    blocked = await world.submit()
    requests = [ClaimRequest("w1", ("q",)), ClaimRequest("w2", ("q",))]
    async with held(ledger.database, blocked):
        granted, failed = await claim(ledger, requests)
    assert isinstance(granted, list)
    assert [mine.task_id.job_id for mine in granted] == [fresh]
    assert isinstance(failed, LockTimeout)
    assert await world.count("leases") == 1


async def test_a_worker_found_lost_in_a_second_round_costs_nobody_a_lease(
    ledger: Ledger, world: World
) -> None:
    await register(ledger, Registration("w2", "n", "h"))
    await register(ledger, Registration("w3", "n", "h", replaces="w2"))
    stale = await world.submit(priority=9)
    await cancel_job(ledger, stale, "hard", actor="operator")
    fresh = await world.submit(priority=5)
    await world.submit(replicas=3)
    requests = [ClaimRequest("w1", ("q",)), ClaimRequest("w2", ("q",))]
    granted, refused = await claim(ledger, requests)
    assert isinstance(granted, list)
    assert [mine.task_id.job_id for mine in granted] == [fresh]
    assert isinstance(refused, LeaseConflict)
    assert await world.count("leases") == 1


async def test_a_batcher_tries_again_what_was_not_written_and_nothing_else(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=3, queue="a")
    blocked = await world.submit(queue="b")
    tried = asyncio.Event()

    async def write(requests: list[ClaimRequest]) -> list[Any]:
        try:
            return list(await claim(ledger, requests))
        finally:
            tried.set()

    batcher: Batcher[ClaimRequest, Any] = Batcher(write, slots=asyncio.Semaphore(1))
    async with held(ledger.database, blocked):
        requests = [ClaimRequest("w1", ("a",)), ClaimRequest("w2", ("b",))]
        answering = asyncio.create_task(batcher.call(requests))
        await tried.wait()
    first, second = await answering
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert [mine.task_id.task_index for mine in first] == [0]
    assert [mine.task_id.job_id for mine in second] == [blocked]
    assert await world.count("leases") == 2, "leases that nobody holds"
