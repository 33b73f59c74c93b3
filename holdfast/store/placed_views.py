"""What people read of placed work beyond what all tasks have; claimed work never comes here."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_PLACED = load_statements("placed_views")


class AccountRow(NamedTuple):
    """Where an attempt's worker is called, and JSON texts: what it was given, what it has used."""

    worker_address: str | None = None
    ports: str | None = None
    usage: str | None = None
    build: str | None = None


class AttemptPlace(NamedTuple):
    """One attempt of a task of some job, and the worker it is or was on."""

    task_index: int
    attempt: int
    worker_id: str | None


async def read_accounts(
    tx: Transaction, job_id: int, attempts: Sequence[AttemptPlace]
) -> dict[int, AccountRow]:
    """Read what attempts were given and have used, one of each task, by task."""
    rows = await tx.fetch(
        _PLACED["read_accounts"],
        job_id=job_id,
        task_indexes=[place.task_index for place in attempts],
        attempts=[place.attempt for place in attempts],
        worker_ids=[place.worker_id for place in attempts],
    )
    return {row[0]: AccountRow(*row[1:]) for row in rows}


async def read_standing(
    tx: Transaction, job_id: int, task_indexes: Sequence[int]
) -> dict[int, str | None]:
    """Find the tasks of a job that stand in line to be placed, and whom each keeps away from."""
    rows = await tx.fetch(_PLACED["read_standing"], job_id=job_id, task_indexes=list(task_indexes))
    return {row[0]: row[1] for row in rows}


async def count_jobs_in_line(tx: Transaction, count_max: int) -> int:
    """Count the jobs with tasks that could be placed, up to a bound."""
    row = await tx.fetch_one(_PLACED["count_jobs_in_line"], count_max=count_max)
    assert row is not None
    count: int = row[0]
    return count
