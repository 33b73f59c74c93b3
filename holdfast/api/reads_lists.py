"""The routes that read a whole job at once: every attempt, all output; and a task's input."""

from datetime import UTC, datetime, timedelta

from holdfast.api import convert
from holdfast.api.endpoint import Call, Endpoint
from holdfast.api.pages import AttemptPlace, StretchPlace, check_page_size, read_token, write_token
from holdfast.model.ids import TaskId, parse_job_id, parse_task_id
from holdfast.model.states import TaskState
from holdfast.store.reads import attempts, jobs, logs, tasks
from holdfast.store.reads.attempts import JobAttemptRow
from holdfast.store.reads.logs import LogPosition
from holdfast.wire.lists import (
    JobAttempt,
    JobAttemptPage,
    JobAttemptQuery,
    JobLogPage,
    JobLogQuery,
    LogStretch,
    TaskInput,
)
from holdfast.wire.raw import raw
from holdfast.wire.requests import Nothing

_EPOCH = datetime.fromtimestamp(0, UTC)


async def list_job_attempts(call: Call[None, JobAttemptQuery]) -> JobAttemptPage:
    """List the attempts of all tasks of a job, by task and number; open ones too."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    page_size, place = check_page_size(asked.page_size), read_token(asked.page_token, AttemptPlace)
    after = attempts.AttemptPosition(asked.task_from, -1)
    if place is not None:
        after = max(after, attempts.AttemptPosition(place.task_index, place.attempt))
    async with call.runtime.reads.transaction() as tx:
        await jobs.get_job(tx, job_id)
        found = await attempts.list_job_attempts(tx, job_id, after=after, page_size=page_size + 1)
    page = found[:page_size]
    following = None
    if len(found) > page_size:
        following = AttemptPlace(page[-1].task_index, page[-1].attempt)
    return JobAttemptPage([_attempt(row) for row in page], write_token(following))


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


async def read_job_logs(call: Call[None, JobLogQuery]) -> JobLogPage:
    """Read the output of a job's tasks as it was stored; a short page is not the last one."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    page_size, place = check_page_size(asked.page_size), read_token(asked.page_token, StretchPlace)
    after = logs.FIRST_STRETCH
    if place is not None:
        stored_at = _EPOCH + timedelta(microseconds=place.microseconds)
        after = LogPosition(stored_at, place.task_index, place.attempt, place.start_offset)
    async with call.runtime.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        page = await logs.read_job_log(tx, job, asked.task_index, after=after, page_size=page_size)
    stretches = [
        LogStretch(
            task_id=str(TaskId(job_id, row.position.task_index)),
            attempt=row.position.attempt,
            offset=row.position.start_offset,
            stored_at_ms=convert.to_ms(row.position.stored_at),
            content=row.content,
        )
        for row in page.stretches
    ]
    microseconds = (page.last.stored_at - _EPOCH) // timedelta(microseconds=1)
    following = None if page.is_complete else StretchPlace(microseconds, *page.last[1:])
    return JobLogPage(stretches, write_token(following), page.is_complete)


async def show_input(call: Call[None, Nothing]) -> TaskInput:
    """Read what a task was given."""
    task_id = parse_task_id(call.path["task_id"])
    async with call.runtime.reads.transaction() as tx:
        return TaskInput(str(task_id), raw(await tasks.get_input(tx, task_id)))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        "/api/jobs/{job_id}/attempts",
        list_job_attempts,
        JobAttemptPage,
        query=JobAttemptQuery,
    ),
    Endpoint("GET", "/api/jobs/{job_id}/logs", read_job_logs, JobLogPage, query=JobLogQuery),
    Endpoint("GET", "/api/tasks/{task_id}/input", show_input, TaskInput),
)
