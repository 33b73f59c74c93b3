"""Partitions of the ledger: made ahead of the ids that need them, dropped by retention."""

import asyncio
from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.rules.partitions import SPAN_MAX, next_span
from holdfast.store.database import LockTimeout
from holdfast.store.tables.order.chains import forget_chains
from holdfast.store.tables.upkeep import partitions
from holdfast.store.tables.upkeep.partitions import (
    Partition,
    add_partition,
    delete_jobs,
    delete_ready_of_partition,
    delete_rows_of_jobs,
    drop_partition,
    find_prunable_partition,
    has_jobs_of_partition,
    list_jobs_in_use,
    list_retired_partitions,
    lock_jobs_of_partition,
    lock_partitions,
    lock_retired_partition,
    read_job_id_pace,
    read_partitions,
    retire_partition,
    shorten_lock_timeout,
)

BATCHES_MAX = 10
BATCH_JOBS_MAX = 1000
BATCH_ROWS_MAX = 10_000
BATCH_LARGE_ROWS_MAX = 500
DROP_LOCK_TIMEOUT_MS = 20
DROP_TRIES_MAX = 20
DROP_PAUSE_SECONDS = 0.1


async def ensure_partitions(ledger: Ledger, job_id: int) -> None:
    """Make sure, before it is used, that a job id has a partition to live in."""
    if job_id >= ledger.partitions_end:
        await add_partitions(ledger, job_id, in_a_hurry=True)


async def add_partitions(ledger: Ledger, job_id: int, *, in_a_hurry: bool = False) -> int:
    """Add partitions until one has room for an id; returns how many were added."""
    added = 0
    async with ledger.database.transaction() as tx:
        await lock_partitions(tx)
        first, end = (await read_partitions(tx))[-1]
        pace = await read_job_id_pace(tx, SPAN_MAX)
        while job_id >= end:
            span = next_span(pace.jobs_last_day, end - first, in_a_hurry=in_a_hurry)
            first, end = end, end + span
            await add_partition(tx, Partition(first, end))
            added += 1
    ledger.partitions_end = end
    return added


async def keep_partitions_ahead(ledger: Ledger) -> int:
    """Add a partition once ids are half way through the newest; one too many slows every plan."""
    async with ledger.database.transaction() as tx:
        pace = await read_job_id_pace(tx, SPAN_MAX)
        first, end = (await read_partitions(tx))[-1]
    ledger.partitions_end = end
    return await add_partitions(ledger, end) if pace.last_job_id >= (first + end) // 2 else 0


async def summarise_events(ledger: Ledger) -> int:
    """Let the newest events be found by index; returns how many ranges of pages were added."""
    async with ledger.database.transaction() as tx:
        return await partitions.summarise_events(tx)


async def prune_partition(ledger: Ledger, older_than: timedelta) -> int:
    """Take a bounded step towards dropping the oldest range of jobs that all ended long ago.

    The range is retired, its jobs go batch by batch, and when none is left its tables are dropped,
    alone: for that nobody else can write. While a job of it is held or in use, the next range has
    its turn. Returns 0 if there is nothing to do, or not now.
    """
    async with ledger.database.transaction() as tx:
        retired = await list_retired_partitions(tx)
    for partition in retired:
        if await _prune_retired(ledger, partition):
            return 1
    following = await _retire_next(ledger, older_than)
    return 0 if following is None else await _prune_retired(ledger, following)


async def _retire_next(ledger: Ledger, older_than: timedelta) -> Partition | None:
    async with ledger.database.transaction() as tx:
        partition = await find_prunable_partition(tx, older_than=older_than)
        if partition is not None:
            await retire_partition(tx, partition)
            await forget_chains(tx, partition.first_job_id, partition.end_job_id)
    return partition


async def _prune_retired(ledger: Ledger, partition: Partition) -> int:
    """Delete some batches of a retired range and drop it when it is empty; 0 if it has to wait."""
    for _ in range(BATCHES_MAX):
        deleted = await _delete_some(ledger, partition)
        if deleted is None:
            return 0
        if not deleted:
            return await _drop(ledger, partition)
    return 1


async def _delete_some(ledger: Ledger, partition: Partition) -> bool | None:
    """Delete some of a retired range, or False if nothing is left; None while others are at it."""
    async with ledger.database.transaction() as tx:
        if not await lock_retired_partition(tx, partition):
            return None
        # Whoever began to depend on one since the range was retired has committed, or holds it.
        job_ids = await lock_jobs_of_partition(tx, partition, batch_max=BATCH_JOBS_MAX)
        in_use = await list_jobs_in_use(tx, job_ids)
        unused = [job_id for job_id in job_ids if job_id not in in_use]
        if unused:
            if await delete_rows_of_jobs(
                tx, unused, rows_max=BATCH_ROWS_MAX, large_rows_max=BATCH_LARGE_ROWS_MAX
            ):
                await delete_jobs(tx, unused)
            return True
        if job_ids or await has_jobs_of_partition(tx, partition):
            return None
        return not await delete_ready_of_partition(tx, partition, rows_max=BATCH_ROWS_MAX)


async def _drop(ledger: Ledger, partition: Partition) -> int:
    """Drop the tables of a retired range, as soon as nobody is using any."""
    for tries_left in reversed(range(DROP_TRIES_MAX)):
        try:
            async with ledger.database.transaction() as tx:
                # Better to give way, and try again, than to queue with every claim behind us.
                await shorten_lock_timeout(tx, DROP_LOCK_TIMEOUT_MS)
                if not await lock_retired_partition(tx, partition):
                    return 0
                await drop_partition(tx, partition)
            return 1
        except LockTimeout:
            if not tries_left:
                raise
            await asyncio.sleep(DROP_PAUSE_SECONDS)
    raise AssertionError("the last try returns or raises")
