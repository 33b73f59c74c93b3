"""The routes that read output: that of one attempt, and that of all tasks of a job."""

import asyncio
from functools import partial

from holdfast.api import convert
from holdfast.api.attempts import AttemptMay
from holdfast.api.page_tokens import (
    LineToken,
    StretchToken,
    check_page_size,
    from_microseconds,
    read_token,
    to_microseconds,
    write_token,
)
from holdfast.api.route import Call, Route, check_wait
from holdfast.api.routes.output.events import parse_time
from holdfast.errors import Invalid, NotFound
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import TaskId, parse_job_id, parse_task_id
from holdfast.operations.logs import LineStart, Log, find_line, read_log
from holdfast.rules.submitting.submission import check_text
from holdfast.store.reads.output import logs
from holdfast.store.reads.output.log_lines import LinePosition, Wanted, search_job_log
from holdfast.store.reads.output.logs import LogPosition
from holdfast.store.reads.work import jobs, tasks
from holdfast.wire.lists import JobLogPage, JobLogQuery, LogStretch
from holdfast.wire.logs import LogLine, LogLinePage, LogLineQuery
from holdfast.wire.requests import LogQuery
from holdfast.wire.status import LogChunk, LogTime

FOLLOW_SECONDS = 0.3
CONTAINS_LENGTH_MAX = 1000


async def show_log(call: Call[None, LogQuery]) -> LogChunk:
    """Read the output of an attempt from an offset on; `follow` waits up to `wait_ms` for more.

    With `tail` or `line` it begins with a line instead, and the answer says which one that is.
    """
    task_id, asked = parse_task_id(call.path["task_id"]), call.query
    clock = asyncio.get_running_loop().time
    ends_at = clock() + (check_wait(asked.wait_ms) / 1000 if asked.follow else 0)
    start = await _find_line(call, task_id)
    while True:
        log = await _read_log(call, task_id, start)
        remaining = ends_at - clock()
        if log.content or log.is_complete or remaining <= 0 or call.runtime.is_stopping:
            break
        await asyncio.sleep(min(remaining, FOLLOW_SECONDS))
    return LogChunk(
        str(task_id),
        log.attempt,
        log.start_offset,
        log.start_offset + len(log.content),
        log.content,
        log.is_complete,
        [LogTime(start_offset, convert.to_ms(at)) for start_offset, at in log.times],
        log.left_out,
        None if start is None else start.line,
    )


async def _find_line(call: Call[None, LogQuery], task_id: TaskId) -> LineStart | None:
    """Find the line to begin with; None if an offset is asked for, or there is no attempt yet."""
    asked = call.query
    places = {"offset": asked.offset or None, "line": asked.line, "tail": asked.tail}
    named = [field for field, value in places.items() if value is not None]
    if len(named) > 1:
        raise Invalid(named[1], f"does not go with {named[0]}; leave out one of them")
    line = asked.line if asked.tail is None else -asked.tail
    if line is None:
        return None
    try:
        return await find_line(call.reads, task_id, attempt=asked.attempt, line=line)
    except NotFound:  # whether that is an error, reading it tells
        return None


async def _read_log(call: Call[None, LogQuery], task_id: TaskId, start: LineStart | None) -> Log:
    """Read a log; that of a task without any attempt is empty."""
    asked = call.query
    reads = call.runtime.follows if asked.follow else call.reads
    start_offset = asked.offset if start is None else start.start_offset
    read = partial(
        read_log,
        reads,
        task_id,
        attempt=asked.attempt if start is None else start.attempt,
        start_offset=start_offset,
        bytes_max=asked.bytes_max,
    )
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
    return Log(convert.NO_ATTEMPT, start_offset, b"", is_complete=task.finished_at is not None)


async def read_job_logs(call: Call[None, JobLogQuery]) -> JobLogPage:
    """Read the output of a job's tasks as it was stored; a short page is not the last one.

    From the first on, or with `tail` from the last page on, and back from there.
    """
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    page_size, after = check_page_size(asked.page_size), _read_position(asked.page_token)
    older = _read_position(asked.older_page_token)
    if asked.tail or older is not None:
        return await _read_job_tail(call, job_id, older, page_size=page_size)
    async with call.runtime.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        page = await logs.read_job_log(
            tx, job, asked.task_index, after=after or logs.FIRST_STRETCH, page_size=page_size
        )
    following = None if page.is_complete else _write_position(page.last)
    return JobLogPage(_stretches(job_id, page.stretches), following, page.is_complete)


async def _read_job_tail(
    call: Call[None, JobLogQuery], job_id: int, older: LogPosition | None, *, page_size: int
) -> JobLogPage:
    """Read the last page, or the one before a position: that one leads back alone."""
    asked = call.query
    given = {"page_token": asked.page_token, "task_index": asked.task_index}
    for field, value in given.items():
        if value is not None:
            raise Invalid(field, "does not go with tail or older_page_token; leave it out")
    async with call.runtime.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        page = await logs.read_job_log_back(tx, job, before=older, page_size=page_size)
    leads_on = older is None and not page.is_complete
    return JobLogPage(
        _stretches(job_id, page.stretches),
        _write_position(page.last) if leads_on else None,
        page.is_complete,
        None if page.is_first else _write_position(page.first),
    )


def _read_position(page_token: str | None) -> LogPosition | None:
    token = read_token(page_token, StretchToken)
    if token is None:
        return None
    stored_at = from_microseconds(token.microseconds)
    return LogPosition(stored_at, token.task_index, token.attempt, token.start_offset)


def _write_position(position: LogPosition) -> str | None:
    return write_token(StretchToken(to_microseconds(position.stored_at), *position[1:]))


def _stretches(job_id: int, rows: list[logs.StretchRow]) -> list[LogStretch]:
    return [
        LogStretch(
            task_id=str(TaskId(job_id, row.position.task_index)),
            attempt=row.position.attempt,
            offset=row.position.start_offset,
            stored_at_ms=convert.to_ms(row.position.stored_at),
            content=row.content,
        )
        for row in rows
    ]


async def search_job_logs(call: Call[None, LogLineQuery]) -> LogLinePage:
    """Search the output of all attempts of a job by text and time, in the order it was stored.

    A page may be short, even empty, and still not be the last: the next page token says.
    """
    job_id, asked = parse_job_id(call.path["job_id"]), call.query
    page_size, token = check_page_size(asked.page_size), read_token(asked.page_token, LineToken)
    wanted, after = _read_wanted(asked), None
    if token is not None:
        stored_at = from_microseconds(token.microseconds)
        stretch = LogPosition(stored_at, token.task_index, token.attempt, token.start_offset)
        after = LinePosition(stretch, token.line_offset)
    async with call.reads.transaction() as tx:
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
    at = to_microseconds(last.stretch.stored_at)
    following = LineToken(at, *last.stretch[1:], last.offset)
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
    Route(
        "GET",
        "/api/tasks/{task_id}/logs",
        show_log,
        LogChunk,
        Role.CONTENT,
        query=LogQuery,
        waits=True,
        attempt=AttemptMay.LIVE,
        at_replica=True,
    ),
    # Not at a replica: nobody sees there which writes have begun, and by one that takes long, or by
    # a clock that is ahead, lines would be passed over for good.
    Route(
        "GET", "/api/jobs/{job_id}/logs", read_job_logs, JobLogPage, Role.CONTENT, query=JobLogQuery
    ),
    Route(
        "GET",
        "/api/jobs/{job_id}/log-lines",
        search_job_logs,
        LogLinePage,
        Role.CONTENT,
        query=LogLineQuery,
        at_replica=True,
    ),
)
