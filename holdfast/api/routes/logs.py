"""The routes that read output: that of one attempt, and that of all tasks of a job."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

from holdfast.api import convert
from holdfast.api.page_tokens import StretchToken, check_page_size, read_token, write_token
from holdfast.api.route import Call, Route, check_wait
from holdfast.errors import NotFound
from holdfast.model.ids import TaskId, parse_job_id, parse_task_id
from holdfast.operations.logs import Log, read_log
from holdfast.store.reads import jobs, logs, tasks
from holdfast.store.reads.logs import LogPosition
from holdfast.wire.lists import JobLogPage, JobLogQuery, LogStretch
from holdfast.wire.requests import LogQuery
from holdfast.wire.status import LogChunk

FOLLOW_SECONDS = 0.3
_EPOCH = datetime.fromtimestamp(0, UTC)


async def show_log(call: Call[None, LogQuery]) -> LogChunk:
    """Read the output of an attempt from an offset on; `follow` waits up to `wait_ms` for more."""
    task_id, asked = parse_task_id(call.path["task_id"]), call.query
    clock = asyncio.get_running_loop().time
    ends_at = clock() + (check_wait(asked.wait_ms) / 1000 if asked.follow else 0)
    while True:
        log = await _read_log(call, task_id)
        remaining = ends_at - clock()
        if log.content or log.is_complete or remaining <= 0 or call.runtime.is_stopping:
            break
        await asyncio.sleep(min(remaining, FOLLOW_SECONDS))
    next_offset = log.start_offset + len(log.content)
    return LogChunk(
        str(task_id), log.attempt, log.start_offset, next_offset, log.content, log.is_complete
    )


async def _read_log(call: Call[None, LogQuery], task_id: TaskId) -> Log:
    """Read a log; that of a task without any attempt is empty."""
    asked = call.query
    reads = call.runtime.follows if asked.follow else call.runtime.reads
    read = partial(read_log, reads, task_id, attempt=asked.attempt, start_offset=asked.offset)
    try:
        return await read()
    except NotFound:
        async with reads.transaction() as tx:
            _, task = await tasks.get_task(tx, task_id)
        if asked.attempt is not None:
            raise
    # One may have begun between the two looks, and be over, too.
    if convert.current_attempt(task) != convert.NO_ATTEMPT:
        return await read()
    return Log(convert.NO_ATTEMPT, asked.offset, b"", is_complete=task.finished_at is not None)


async def read_job_logs(call: Call[None, JobLogQuery]) -> JobLogPage:
    """Read the output of a job's tasks as it was stored; a short page is not the last one."""
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, StretchToken)
    after = logs.FIRST_STRETCH
    if token is not None:
        stored_at = _EPOCH + timedelta(microseconds=token.microseconds)
        after = LogPosition(stored_at, token.task_index, token.attempt, token.start_offset)
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
    following = None if page.is_complete else StretchToken(microseconds, *page.last[1:])
    return JobLogPage(stretches, write_token(following), page.is_complete)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/api/tasks/{task_id}/logs", show_log, LogChunk, query=LogQuery, waits=True),
    Route("GET", "/api/jobs/{job_id}/logs", read_job_logs, JobLogPage, query=JobLogQuery),
)
