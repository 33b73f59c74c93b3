"""Retention: what is old and settled goes."""

from dataclasses import dataclass
from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.operations.partitions import prune_partition
from holdfast.operations.submitting.submit import delete_hidden_job
from holdfast.store.statements import load_statements
from holdfast.store.tables.samples import prune_samples

_ENDPOINTS = load_statements("endpoints")
_EVENTS = load_statements("events")
_JOBS = load_statements("jobs")
_KEYS = load_statements("keys")
_WORKERS = load_statements("workers")
BATCH_MAX = 1000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things stay after they have ended."""

    jobs: timedelta = timedelta(days=30)
    keys: timedelta = timedelta(hours=1)
    hidden_jobs: timedelta = timedelta(hours=1)
    workers: timedelta = timedelta(days=7)


async def prune(ledger: Ledger, retention: Retention) -> int:
    """Take one bounded step of every kind of cleaning; returns how many things went."""
    async with ledger.database.transaction() as tx:
        hidden = await tx.fetch(
            _JOBS["list_hidden_jobs"], older_than=retention.hidden_jobs, batch_max=BATCH_MAX
        )
    for row in hidden:
        async with ledger.database.transaction() as tx:
            await delete_hidden_job(tx, row[0])
    async with ledger.database.transaction() as tx:
        notes = await tx.fetch(_EVENTS["prune_notes"], batch_max=BATCH_MAX)
        keys = await tx.fetch(_KEYS["prune_keys"], older_than=retention.keys, batch_max=BATCH_MAX)
        workers = await tx.fetch(
            _WORKERS["prune_workers"], older_than=retention.workers, batch_max=BATCH_MAX
        )
        endpoints = await tx.fetch(_ENDPOINTS["prune_endpoints"], batch_max=BATCH_MAX)
        samples = await prune_samples(tx, batch_max=BATCH_MAX)
    dropped = await prune_partition(ledger, retention.jobs)
    gone = (hidden, notes, keys, workers, endpoints)
    return sum(map(len, gone)) + samples + dropped
