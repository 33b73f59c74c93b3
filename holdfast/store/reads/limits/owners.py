"""What owners have in the ledger, all in all."""

from typing import NamedTuple

from holdfast.store.database import Database
from holdfast.store.statements import load_statements

_OWNERS = load_statements("reads/limits/owners")


class JobRange(NamedTuple):
    """A range of jobs, and whether more may come to be stored for them."""

    first_job_id: int
    end_job_id: int
    may_change: bool


async def count_live_tasks(database: Database) -> dict[str, int]:
    """Count the tasks of each owner that have not ended; reads every job that has not."""
    async with database.snapshot() as tx:
        rows = await tx.fetch(_OWNERS["count_live_tasks"])
    return {row[0]: int(row[1]) for row in rows}


async def list_ranges(database: Database) -> list[JobRange]:
    """List the ranges that jobs are kept in, the oldest first."""
    async with database.snapshot() as tx:
        return list(map(JobRange._make, await tx.fetch(_OWNERS["list_ranges"])))


async def count_bytes(database: Database, jobs: JobRange) -> dict[str, int]:
    """Count what is kept for each owner of a range; reads every task of it."""
    async with database.snapshot() as tx:
        rows = await tx.fetch(
            _OWNERS["count_bytes"], first_job_id=jobs.first_job_id, end_job_id=jobs.end_job_id
        )
    return {row[0]: row[1] for row in rows}
