"""The routes that list attempts: of a task, of all tasks of a job, and those on a worker."""

from holdfast.api import convert
from holdfast.api.page_tokens import (
    AttemptToken,
    EndedToken,
    IndexToken,
    check_page_size,
    from_microseconds,
    read_token,
    to_microseconds,
    write_token,
)
from holdfast.api.route import Call, Route
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import check_worker_id, parse_job_id, parse_task_id
from holdfast.model.work.states import TaskState
from holdfast.store.reads.limits import queues
from holdfast.store.reads.work import attempts, jobs, tasks
from holdfast.store.reads.work.attempts import JobAttemptRow
from holdfast.store.reads.workers import worker_attempts
from holdfast.store.reads.workers.worker_attempts import AttemptMoment, WorkerAttemptRow
from holdfast.wire.lists import (
    JobAttempt,
    JobAttemptPage,
    JobAttemptQuery,
    WorkerAttempt,
    WorkerAttemptPage,
    WorkerAttemptQuery,
)
from holdfast.wire.requests import PageQuery
from holdfast.wire.status import AttemptList


async def list_attempts(call: Call[None, PageQuery]) -> AttemptList:
    """List the attempts of a task, the oldest first."""
    task_id, page_size = parse_task_id(call.path["task_id"]), check_page_size(call.query.page_size)
    token = read_token(call.query.page_token, IndexToken)
    after = -1 if token is None else token.index
    async with call.runtime.reads.transaction() as tx:
        job, task = await tasks.get_task(tx, task_id)
        found = await attempts.list_attempts(tx, task_id, after=after, page_size=page_size + 1)
        line = await queues.read_condition(tx, job.queue)
    page = found[:page_size]
    following = IndexToken(page[-1].attempt) if len(found) > page_size else None
    shown = [convert.task_attempt(row, task, line.now) for row in page]
    return AttemptList(shown, write_token(following))


async def list_job_attempts(call: Call[None, JobAttemptQuery]) -> JobAttemptPage:
    """List the attempts of all tasks of a job, by task and number; open ones too."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, AttemptToken)
    after = attempts.AttemptPosition(asked.task_from, -1)
    if token is not None:
        after = max(after, attempts.AttemptPosition(token.task_index, token.attempt))
    async with call.runtime.reads.transaction() as tx:
        await jobs.get_job(tx, job_id)
        found = await attempts.list_job_attempts(tx, job_id, after=after, page_size=page_size + 1)
    page = found[:page_size]
    following = None
    if len(found) > page_size:
        following = AttemptToken(page[-1].task_index, page[-1].attempt)
    return JobAttemptPage([_attempt(row) for row in page], write_token(following))


async def list_worker_attempts(call: Call[None, WorkerAttemptQuery]) -> WorkerAttemptPage:
    """List the attempts that ended on a worker, the newest first."""
    asked = call.query
    worker_id = check_worker_id(asked.worker, "worker")
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, EndedToken)
    after = worker_attempts.NEWEST_ATTEMPT
    if token is not None:
        at = from_microseconds(token.microseconds)
        after = AttemptMoment(at, token.job_id, token.task_index, token.attempt)
    async with call.runtime.reads.transaction() as tx:
        page = await worker_attempts.list_attempts_of_worker(
            tx, worker_id, only_unsuccessful=asked.unsuccessful, after=after, page_size=page_size
        )
    following = None
    if page.next_after is not None:
        at, *position = page.next_after
        following = EndedToken(to_microseconds(at), *position)
    return WorkerAttemptPage([_worker_attempt(row) for row in page.rows], write_token(following))


def _worker_attempt(row: WorkerAttemptRow) -> WorkerAttempt:
    return WorkerAttempt(
        task_id=str(row.task_id),
        attempt_id=row.attempt,
        job_id=str(row.job_id),
        job_name=row.job_name,
        job_type=row.job_type,
        state=convert.task_state(row.state),
        created_at_ms=convert.to_ms(row.created_at),
        started_at_ms=convert.ms(row.started_at),
        finished_at_ms=convert.to_ms(row.finished_at),
        exit_code=row.exit_code,
        error=row.error,
        error_class=row.error_class,
        stage=row.stage,
        is_worker_failure=row.state == TaskState.WORKER_FAILED,
    )


def _attempt(row: JobAttemptRow) -> JobAttempt:
    return JobAttempt(
        task_index=row.task_index,
        attempt_id=row.attempt,
        worker_id=row.worker_id,
        state=convert.task_state(row.state),
        created_at_ms=convert.to_ms(row.created_at),
        started_at_ms=None if row.started_at is None else convert.to_ms(row.started_at),
        finished_at_ms=None if row.finished_at is None else convert.to_ms(row.finished_at),
        is_worker_failure=row.state == TaskState.WORKER_FAILED,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/attempts",
        list_worker_attempts,
        WorkerAttemptPage,
        Role.READ,
        query=WorkerAttemptQuery,
    ),
    Route(
        "GET",
        "/api/tasks/{task_id}/attempts",
        list_attempts,
        AttemptList,
        Role.READ,
        query=PageQuery,
    ),
    Route(
        "GET",
        "/api/jobs/{job_id}/attempts",
        list_job_attempts,
        JobAttemptPage,
        Role.READ,
        query=JobAttemptQuery,
    ),
)
