"""What has ended on a worker: its attempts, the newest first, and the jobs that they are of."""

from datetime import UTC, datetime
from typing import NamedTuple

from holdfast.model.work.ids import INDEX_MAX, JOB_ID_MAX, TaskId
from holdfast.store.database import Transaction
from holdfast.store.pages import Page, fill_page
from holdfast.store.statements import load_statements

_ATTEMPTS = load_statements("reads/workers/worker_attempts")
ERROR_LENGTH_MAX = 300
# Jobs are found by the newest attempts of a worker, and by what it holds.
ATTEMPTS_EXAMINED_MAX = 10_000


class WorkerAttemptRow(NamedTuple):
    """An attempt that has ended on a worker; of its error, the beginning."""

    job_id: int
    task_index: int
    attempt: int
    state: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime
    exit_code: int | None
    error: str | None
    error_class: str | None
    stage: str | None
    job_name: str
    job_type: str

    @property
    def task_id(self) -> TaskId:
        """Name its task."""
        return TaskId(self.job_id, self.task_index)


class AttemptMoment(NamedTuple):
    """A position among the attempts of a worker, in which the newest stand first."""

    finished_at: datetime
    job_id: int
    task_index: int
    attempt: int


NEWEST_ATTEMPT = AttemptMoment(datetime.max.replace(tzinfo=UTC), JOB_ID_MAX, INDEX_MAX, INDEX_MAX)


async def list_attempts_of_worker(
    tx: Transaction,
    worker_id: str,
    *,
    only_unsuccessful: bool = False,
    after: AttemptMoment = NEWEST_ATTEMPT,
    page_size: int,
) -> Page[WorkerAttemptRow, AttemptMoment]:
    """List what ended on a worker, the newest first; a short page may not be the last one."""

    async def walk(after: AttemptMoment, count_max: int) -> list[AttemptMoment]:
        rows = await tx.fetch(
            _ATTEMPTS["walk_attempts_of_worker"],
            worker_id=worker_id,
            before=after.finished_at,
            before_job_id=after.job_id,
            before_task_index=after.task_index,
            before_attempt=after.attempt,
            count_max=count_max,
        )
        return [AttemptMoment(*row) for row in rows]

    async def read(moments: list[AttemptMoment], count_max: int) -> list[WorkerAttemptRow]:
        rows = await tx.fetch(
            _ATTEMPTS["read_attempts_of_worker"],
            job_ids=[moment.job_id for moment in moments],
            task_indexes=[moment.task_index for moment in moments],
            attempts=[moment.attempt for moment in moments],
            error_length=ERROR_LENGTH_MAX,
            only_unsuccessful=only_unsuccessful,
            count_max=count_max,
        )
        return [WorkerAttemptRow(*row) for row in rows]

    def moment_of(row: WorkerAttemptRow) -> AttemptMoment:
        return AttemptMoment(row.finished_at, row.job_id, row.task_index, row.attempt)

    return await fill_page(walk, read, moment_of, after=after, page_size=page_size)


async def list_jobs_of_worker(tx: Transaction, worker_id: str) -> list[int]:
    """List the jobs of its newest attempts, and of those it holds: the newest jobs first."""
    ended = await tx.fetch(
        _ATTEMPTS["list_jobs_of_worker"], worker_id=worker_id, attempts_max=ATTEMPTS_EXAMINED_MAX
    )
    held = await tx.fetch(_ATTEMPTS["list_held_jobs"], worker_id=worker_id)
    return sorted({row[0] for row in [*ended, *held]}, reverse=True)
