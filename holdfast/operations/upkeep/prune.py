"""Retention: what is old and over goes, a bounded step at a time."""

import logging
from dataclasses import dataclass
from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.operations.submitting.chunk import delete_hidden
from holdfast.operations.upkeep.partitions import prune_partition
from holdfast.store.database import LockTimeout
from holdfast.store.tables.access.actions import prune_actions
from holdfast.store.tables.access.keys import prune_keys
from holdfast.store.tables.output.endpoints import prune_endpoints
from holdfast.store.tables.output.notes import prune_notes
from holdfast.store.tables.submitting.schedules import prune_firings
from holdfast.store.tables.upkeep.samples import prune_samples
from holdfast.store.tables.work.jobs import list_hidden_jobs
from holdfast.store.tables.workers.workers import prune_workers

log = logging.getLogger("holdfast.prune")
BATCH_MAX = 1000
HIDDEN_STEPS_MAX = 10


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things stay after they have ended."""

    jobs: timedelta = timedelta(days=30)
    keys: timedelta = timedelta(hours=1)
    hidden_jobs: timedelta = timedelta(hours=1)
    workers: timedelta = timedelta(days=7)
    actions: timedelta = timedelta(days=400)


async def prune(ledger: Ledger, retention: Retention) -> int:
    """Take one bounded step of every kind of cleaning; returns how many things went."""
    gone = await _prune_hidden(ledger, retention.hidden_jobs)
    async with ledger.database.transaction() as tx:
        gone += await prune_notes(tx, batch_max=BATCH_MAX)
        gone += await prune_keys(tx, older_than=retention.keys, batch_max=BATCH_MAX)
        gone += await prune_workers(tx, older_than=retention.workers, batch_max=BATCH_MAX)
        gone += await prune_endpoints(tx, batch_max=BATCH_MAX)
        gone += await prune_actions(tx, older_than=retention.actions, batch_max=BATCH_MAX)
        gone += await prune_samples(tx, batch_max=BATCH_MAX)
        gone += await prune_firings(tx, older_than=retention.jobs, batch_max=BATCH_MAX)
    return gone + await prune_partition(ledger, retention.jobs)


async def _prune_hidden(ledger: Ledger, older_than: timedelta) -> int:
    """Take away submissions that never arrived whole; returns of how many something went."""
    async with ledger.database.transaction() as tx:
        job_ids = await list_hidden_jobs(tx, older_than=older_than, batch_max=HIDDEN_STEPS_MAX)
    gone: set[int] = set()
    steps = 0
    for job_id in job_ids:
        is_gone = False
        while not is_gone and steps < HIDDEN_STEPS_MAX:
            steps += 1
            try:
                is_gone = await delete_hidden(ledger, job_id)
            except LockTimeout as error:
                log.warning("hidden job %s is left for the next time: %s", job_id, error)
                break
            gone.add(job_id)
    return len(gone)
