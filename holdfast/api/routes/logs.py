"""The routes that read output: that of one attempt, and that of all tasks of a job."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

from holdfast.api import convert
from holdfast.api.page_tokens import (
    LineToken,
    StretchToken,
    check_page_size,
    read_token,
    write_token,
)
from holdfast.api.route import Call, Route, check_wait
from holdfast.api.routes.events import parse_time
from holdfast.errors import Invalid, NotFound
from holdfast.model.ids import TaskId, parse_job_id, parse_task_id
from holdfast.operations.logs import Log, read_log
from holdfast.rules.submission import check_text
from holdfast.store.reads import jobs, logs, tasks
from holdfast.store.reads.log_lines import LinePosition, Wanted, search_job_log
from holdfast.store.reads.logs import LogPosition
from holdfast.wire.lists import JobLogPage, JobLogQuery, LogStretch
from holdfast.wire.logs import LogLine, LogLinePage, LogLineQuery
from holdfast.wire.requests import LogQuery
from holdfast.wire.status import LogChunk, LogTime

FOLLOW_SECONDS = 0.3
CONTAINS_LENGTH_MAX = 1000
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
        str(task_id),
        log.attempt,
        log.start_offset,
        next_offset,
        log.content,
        log.is_complete,
        [LogTime(start_offset, convert.to_ms(at)) for start_offset, at in log.times],
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


async def search_job_logs(call: Call[None, LogLineQuery]) -> LogLinePage:
    """Search the output of all attempts of a job by text and time, in the order it was stored.

    A page may be short, even empty, and still not be the last: the next page token says.
    """
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, LineToken)
    wanted, after = _read_wanted(asked), None
    if token is not None:
        stored_at = _EPOCH + timedelta(microseconds=token.microseconds)
        stretch = LogPosition(stored_at, token.task_index, token.attempt, token.start_offset)
        after = LinePosition(stretch, token.line_offset)
    async with call.runtime.reads.transaction() as tx:
        await jobs.get_job(tx, job_id)
        found, last = await search_job_log(tx, job_id, wanted, after=after, page_size=page_size)
    lines = [
        LogLine(
            task_id=str(TaskId(job_id, stretch.task_index)),
            attempt=stretch.attempt,
            offset=offset,
            stored_at_ms=convert.to_ms(stretch.stored_at),
            text=content.decode(errors="backslashreplace"),
        )
        for (stretch, offset), content in found
    ]
    if last is None:
        return LogLinePage(lines)
    microseconds = (last.stretch.stored_at - _EPOCH) // timedelta(microseconds=1)
    following = LineToken(microseconds, *last.stretch[1:], last.offset)
    return LogLinePage(lines, write_token(following))


def _read_wanted(asked: LogLineQuery) -> Wanted:
    text = asked.contains or ""
    check_text("contains", text, CONTAINS_LENGTH_MAX)
    if "\n" in text or "\r" in text:
        raise Invalid("contains", "has a line break; search for a part of one line")
    since, until = parse_time(asked.since, "since"), parse_time(asked.until, "until")
    if since is not None and until is not None and since >= until:
        raise Invalid("until", "is not after since; swap the two")
    return Wanted(text.encode(), since, until, asked.task_index, asked.attempt)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/api/tasks/{task_id}/logs", show_log, LogChunk, query=LogQuery, waits=True),
    Route("GET", "/api/jobs/{job_id}/logs", read_job_logs, JobLogPage, query=JobLogQuery),
    Route("GET", "/api/jobs/{job_id}/log-lines", search_job_logs, LogLinePage, query=LogLineQuery),
)
