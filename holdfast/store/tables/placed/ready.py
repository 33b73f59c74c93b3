"""Placed work in line: what the scheduler reads of it, and takes."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.work.ready import Passed

_CLUSTER = load_statements("workers/cluster")
_LIMITS = load_statements("limits/limits")


async def has_placed_ready(tx: Transaction) -> bool:
    """Tell whether anything waits to be placed."""
    return await tx.fetch_one(_CLUSTER["find_placed_ready"]) is not None


class ReadyOfJob(NamedTuple):
    """Tasks of a job that wait to be placed, by the worker that they should avoid."""

    job_id: int
    priority: int
    avoid: str | None
    ready: int
    since: float
    unfinished: int
    is_live: bool


async def list_demands(
    tx: Transaction, *, tasks_max: int, gang_max: int, jobs_max: int | None = None
) -> list[ReadyOfJob]:
    """List what waits to be placed, of each job no more than one pass could place.

    Of all jobs, or of the first so many by id.
    """
    rows = await tx.fetch(
        _CLUSTER["list_demands"], tasks_max=tasks_max, gang_max=gang_max, jobs_max=jobs_max
    )
    return list(map(ReadyOfJob._make, rows))


async def list_demands_of_job(
    tx: Transaction, job_id: int, *, tasks_max: int, gang_max: int
) -> list[ReadyOfJob]:
    """List what waits to be placed of one live job."""
    rows = await tx.fetch(
        _CLUSTER["list_demands_of_job"], job_id=job_id, tasks_max=tasks_max, gang_max=gang_max
    )
    return list(map(ReadyOfJob._make, rows))


async def drop_ready_of_ended_jobs(tx: Transaction, job_ids: Sequence[int], batch_max: int) -> None:
    """Clear the line of tasks whose jobs have ended or were cancelled."""
    await tx.fetch(_CLUSTER["drop_ready_of_ended_jobs"], job_ids=job_ids, batch_max=batch_max)


async def drop_stale_ready(tx: Transaction, job_ids: Sequence[int], batch_max: int) -> None:
    """Clear the line of tasks that were cancelled one by one."""
    await tx.fetch(_CLUSTER["drop_stale_ready"], job_ids=job_ids, batch_max=batch_max)


class WantedOfJob(NamedTuple):
    """How many tasks of a job are to be taken, of those that avoid this worker."""

    job_id: int
    avoid: str | None
    tasks: int


class TakenOfJob(NamedTuple):
    """A task that was in line, locked; stale if it is not PENDING or its job is not live."""

    job_id: int
    task_index: int
    state: int
    attempt: int
    job_is_live: bool
    eligible_at: datetime
    avoid: str | None
    gives_up_at: datetime | None


async def take_ready_of_jobs(tx: Transaction, wanted: Sequence[WantedOfJob]) -> list[TakenOfJob]:
    """Take tasks out of line, fewer than wanted if some have gone; in the order of their ids."""
    rows = await tx.fetch(
        _CLUSTER["take_ready_of_jobs"],
        job_ids=[item.job_id for item in wanted],
        avoids=[item.avoid for item in wanted],
        counts=[item.tasks for item in wanted],
    )
    return list(map(TakenOfJob._make, rows))


async def pass_placed(tx: Transaction, tasks: Sequence[TakenOfJob]) -> dict[TaskId, Passed]:
    """Ask the limits for tasks that were taken out of line; those that have to wait are put back.

    Nothing is returned where there are no limits.
    """
    rows = await tx.fetch(
        _LIMITS["pass_taken"],
        job_ids=[task.job_id for task in tasks],
        task_indexes=[task.task_index for task in tasks],
        give_ups=[task.gives_up_at for task in tasks],
        avoids=[task.avoid for task in tasks],
    )
    return {TaskId(row[0], row[1]): Passed._make(row) for row in rows}


async def keep_for_gang(tx: Transaction, job_id: int, *, seconds: float) -> None:
    """Keep for a gang in line what its limits lack, from those who come after it, for a while."""
    await tx.fetch(_LIMITS["keep_for_gang"], job_id=job_id, seconds=seconds)


async def open_due_placed(tx: Transaction, *, tasks_max: int) -> None:
    """Put placed tasks back into line that waited for a rate, as far as it allows more."""
    await tx.fetch(_CLUSTER["open_due_placed"], tasks_max=tasks_max)
