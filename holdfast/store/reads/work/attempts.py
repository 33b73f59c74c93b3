"""Attempts: of a task, of all tasks of a job, what placed ones have used, how many are open."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_ATTEMPTS = load_statements("reads/work/attempts")


class AttemptRow(NamedTuple):
    """One attempt, open or ended; what it was given and has used are JSON texts."""

    attempt: int
    worker_id: str
    state: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    released_at: datetime | None
    exit_code: int | None
    error: str | None
    error_class: str | None
    stage: str | None
    is_worker_failure: bool
    lease_expires_at: datetime
    ports: str | None
    devices: str | None
    usage: str | None
    build: str | None


class AttemptPosition(NamedTuple):
    """A position in the list of all attempts of a job."""

    task_index: int
    attempt: int


FIRST_ATTEMPT = AttemptPosition(-1, 0)


class JobAttemptRow(NamedTuple):
    """One attempt of one task of a job, open or ended."""

    task_index: int
    attempt: int
    worker_id: str
    state: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class AccountRow(NamedTuple):
    """Where an attempt's worker is called, and JSON texts: what it was given, what it has used."""

    worker_address: str | None = None
    ports: str | None = None
    devices: str | None = None
    usage: str | None = None
    build: str | None = None


class AttemptOnWorker(NamedTuple):
    """One attempt of a task of some job, and the worker it is or was on."""

    task_index: int
    attempt: int
    worker_id: str | None


async def list_attempts(
    tx: Transaction, task_id: TaskId, *, after: int = -1, page_size: int
) -> list[AttemptRow]:
    """List the attempts of a task, the oldest first."""
    rows = await tx.fetch(
        _ATTEMPTS["list_attempts"],
        job_id=task_id.job_id,
        task_index=task_id.task_index,
        after_attempt=after,
        count_max=page_size,
    )
    return [AttemptRow(*row) for row in rows]


async def list_job_attempts(
    tx: Transaction, job_id: int, *, after: AttemptPosition = FIRST_ATTEMPT, page_size: int
) -> list[JobAttemptRow]:
    """List the attempts of all tasks of a job, by task and number."""
    rows = await tx.fetch(
        _ATTEMPTS["list_job_attempts"],
        job_id=job_id,
        after_index=after.task_index,
        after_attempt=after.attempt,
        count_max=page_size,
    )
    return [JobAttemptRow(*row) for row in rows]


async def read_accounts(
    tx: Transaction, job_id: int, attempts: Sequence[AttemptOnWorker]
) -> dict[int, AccountRow]:
    """Read what attempts were given and have used, one of each task, by task."""
    rows = await tx.fetch(
        _ATTEMPTS["read_accounts"],
        job_id=job_id,
        task_indexes=[each.task_index for each in attempts],
        attempts=[each.attempt for each in attempts],
        worker_ids=[each.worker_id for each in attempts],
    )
    return {row[0]: AccountRow(*row[1:]) for row in rows}


async def count_leases(tx: Transaction) -> tuple[int, int]:
    """Count the leases: of open attempts, and of ended ones that are not released."""
    row = await tx.fetch_one(_ATTEMPTS["count_leases"])
    assert row is not None
    return row[0], row[1]
