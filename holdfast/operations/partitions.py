"""Partitions of the ledger: made ahead of the ids that need them, dropped by retention."""

from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.rules.partitions import SPAN_MAX, next_span
from holdfast.store.statements import load_statements

_EVENTS = load_statements("events")
_ATTEMPTS = load_statements("attempts")
_CLUSTER = load_statements("cluster")
_ORDER = load_statements("order")
_DATASETS = load_statements("datasets")
DROP_LOCK_TIMEOUT_MS = 20


async def ensure_partitions(ledger: Ledger, job_id: int) -> None:
    """Make sure, before it is used, that a job id has a partition to live in."""
    if job_id >= ledger.partitions_end:
        await add_partitions(ledger, job_id, in_a_hurry=True)


async def add_partitions(ledger: Ledger, job_id: int, *, in_a_hurry: bool = False) -> int:
    """Add partitions until one has room for an id; returns how many were added."""
    added = 0
    async with ledger.database.transaction() as tx:
        await tx.fetch(_EVENTS["lock_partitions"])
        ranges = await tx.fetch(_EVENTS["read_partitions"])
        first, end = ranges[-1]
        pace = await tx.fetch_one(_EVENTS["read_job_id_pace"], span_max=SPAN_MAX)
        assert pace is not None
        while job_id >= end:
            span = next_span(pace[1], end - first, in_a_hurry=in_a_hurry)
            first, end = end, end + span
            await tx.fetch(_EVENTS["add_partition"], first_job_id=first, end_job_id=end)
            added += 1
    ledger.partitions_end = end
    return added


async def keep_partitions_ahead(ledger: Ledger) -> int:
    """Add a partition once ids are half way through the newest; one too many slows every plan."""
    async with ledger.database.transaction() as tx:
        pace = await tx.fetch_one(_EVENTS["read_job_id_pace"], span_max=SPAN_MAX)
        ranges = await tx.fetch(_EVENTS["read_partitions"])
    assert pace is not None
    first, end = ranges[-1]
    ledger.partitions_end = end
    return await add_partitions(ledger, end) if pace[0] >= (first + end) // 2 else 0


async def summarise_events(ledger: Ledger) -> int:
    """Let the newest events be found by index; returns how many ranges of pages were added."""
    async with ledger.database.transaction() as tx:
        row = await tx.fetch_one(_EVENTS["summarise_events"])
    assert row is not None
    count: int = row[0]
    return count


async def prune_partition(ledger: Ledger, older_than: timedelta) -> int:
    """Drop the oldest range of jobs that all ended long ago; returns how many ranges went."""
    async with ledger.database.transaction() as tx:
        # Dropping needs the parents for itself: better to give way to a long reader, and come again
        # later, than to queue behind it with every claim behind us.
        await tx.fetch(_EVENTS["shorten_lock_timeout"], milliseconds=str(DROP_LOCK_TIMEOUT_MS))
        await tx.fetch(_EVENTS["lock_partitions"])
        row = await tx.fetch_one(_EVENTS["list_prunable_partitions"], older_than=older_than)
        if row is None:
            return 0
        first, end = row
        bounds = {"first_job_id": first, "end_job_id": end}
        await tx.fetch(_EVENTS["drop_partition"], first_job_id=first)
        await tx.fetch(_EVENTS["delete_jobs_of_partition"], **bounds)
        await tx.fetch(_EVENTS["delete_dead_letters_of_partition"], **bounds)
        await tx.fetch(_EVENTS["delete_ready_of_partition"], **bounds)
        await tx.fetch(_ATTEMPTS["delete_logs_of_partition"], **bounds)
        await tx.fetch(_CLUSTER["delete_usage_of_partition"], **bounds)
        await tx.fetch(_ATTEMPTS["delete_checkpoints_of_partition"], **bounds)
        await tx.fetch(_ORDER["delete_dependencies_of_partition"], **bounds)
        await tx.fetch(_ORDER["delete_undos_of_partition"], **bounds)
        await tx.fetch(_DATASETS["delete_job_outputs_of_partition"], **bounds)
        await tx.fetch(_DATASETS["delete_commits_of_partition"], **bounds)
    return 1
