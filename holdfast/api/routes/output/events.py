"""The routes that read events: of a job, of a task, and all of them as they come."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from holdfast.api import convert
from holdfast.api.attempts import AttemptMay
from holdfast.api.event_names import (
    find_note,
    parse_event_types,
    parse_logged_types,
    parse_searched_types,
)
from holdfast.api.page_tokens import (
    EventToken,
    check_page_size,
    from_microseconds,
    read_token,
    to_microseconds,
    write_token,
)
from holdfast.api.route import Call, Narrowing, Route, Stream
from holdfast.errors import Invalid, Unavailable
from holdfast.model.access.roles import Role
from holdfast.model.work.ids import parse_job_id, parse_task_id
from holdfast.rules.submitting.submission import check_text
from holdfast.services.runtime import Runtime
from holdfast.store.reads.output import events
from holdfast.store.reads.output.events import (
    ID_MAX,
    Cursor,
    Follower,
    Moment,
    list_events_of_job,
    list_events_of_task,
    search_events,
)
from holdfast.store.reads.output.notes import list_notes, search_user_events
from holdfast.store.reads.work import jobs, tasks
from holdfast.wire.events import SEARCH_PATH, EventListQuery, EventSearchQuery, EventStreamQuery
from holdfast.wire.status import EventPage

LOOK_SECONDS = 0.25
KEEP_ALIVE_SECONDS = 15.0
LARGE_TASKS_MIN = 5000
TEXT_MAX = 256
SEARCHED = timedelta(hours=1)
_TIMES = "give one such as 2026-11-16T12:00:00Z, or milliseconds since 1970"
_CURSOR = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_FIRST = Moment()
_encode = msgspec.json.Encoder().encode


async def list_job_events(call: Call[None, EventListQuery]) -> EventPage:
    """List what happened to a job and to its tasks, in the order of time."""
    job_id = parse_job_id(call.path["job_id"])
    types, after, page_size = _read_query(call.query)
    async with call.reads.transaction() as tx:
        job = await jobs.get_job(tx, job_id)
        if (note := find_note(types)) is not None:
            found = await list_notes(tx, job_id, note, after=after, page_size=page_size + 1)
        else:
            found = await list_events_of_job(
                tx,
                job_id,
                types,
                after=after,
                page_size=page_size + 1,
                large_since=job.submitted_at if job.num_tasks > LARGE_TASKS_MIN else None,
            )
    return _make_page(found, page_size)


async def list_task_events(call: Call[None, EventListQuery]) -> EventPage:
    """List what happened to one task, in the order of time."""
    task_id = parse_task_id(call.path["task_id"])
    types, after, page_size = _read_query(call.query)
    async with call.reads.transaction() as tx:
        await tasks.get_task(tx, task_id)
        if (note := find_note(types)) is not None:
            found = await list_notes(
                tx,
                task_id.job_id,
                note,
                task_index=task_id.task_index,
                after=after,
                page_size=page_size + 1,
            )
        else:
            found = await list_events_of_task(
                tx, task_id, types, after=after, page_size=page_size + 1
            )
    return _make_page(found, page_size)


async def search_all_events(call: Call[None, EventSearchQuery]) -> EventPage:
    """Search the events of all jobs by type, time and correlation id, in the order of time.

    A page may be short and still not be the last: the next page token says.
    """
    asked = call.query
    types, page_size = parse_searched_types(asked.type), check_page_size(asked.page_size)
    check_text("correlation_id", asked.correlation_id or "", TEXT_MAX)
    since, until = parse_time(asked.since, "since"), parse_time(asked.until, "until")
    if since is not None and until is not None and since >= until:
        raise Invalid("until", "is not after since; swap the two")
    after = _read_moment(asked.page_token)
    async with call.reads.transaction() as tx:
        if after is None and since is None and asked.correlation_id is None:
            since = (until or await tx.now()) - SEARCHED
        note = find_note(types)
        search = partial(search_events, tx, types)
        if note is not None:
            search = partial(search_user_events, tx, note)
        found, following = await search(
            correlation_id=asked.correlation_id,
            after=after or (_FIRST if since is None else Moment(since)),
            until=until,
            page_size=page_size,
        )
    return EventPage([convert.event(row) for row in found], _write_moment(following))


def parse_time(text: str | None, field: str) -> datetime | None:
    """Read a moment: a time with its zone, or milliseconds since 1970."""
    if text is None:
        return None
    try:
        if text.isdecimal():
            return _FIRST.ts + timedelta(milliseconds=int(text))
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise Invalid(field, f"{text[:50]!r} has no time zone; {_TIMES}")
        return max(moment.astimezone(UTC), _FIRST.ts)
    except (ValueError, OverflowError) as error:
        raise Invalid(field, f"{text[:50]!r} is not a time; {_TIMES}") from error


def _read_query(asked: EventListQuery) -> tuple[Sequence[str] | None, Moment, int]:
    types, page_size = parse_event_types(asked.type), check_page_size(asked.page_size)
    return types, _read_moment(asked.page_token) or _FIRST, page_size


def _read_moment(page_token: str | None) -> Moment | None:
    token = read_token(page_token, EventToken)
    if token is None:
        return None
    return Moment(from_microseconds(token.microseconds), token.id)


def _write_moment(following: Moment | None) -> str | None:
    if following is None:
        return None
    return write_token(EventToken(to_microseconds(following.ts), following.id))


def _make_page(found: list[events.Event], page_size: int) -> EventPage:
    """Make a page of what was looked for, which is one more."""
    page = found[:page_size]
    following = Moment(page[-1].ts, page[-1].id) if len(found) > page_size else None
    return EventPage([convert.event(row) for row in page], _write_moment(following))


async def follow_events(call: Call[None, EventStreamQuery]) -> Stream:
    """Follow events as they come: from now, or after the id of an event (0-0: from the first)."""
    asked = call.query
    types = parse_logged_types(asked.type)
    job_id = None if asked.job_id is None else parse_job_id(asked.job_id)
    if job_id is None:
        call.caller.refuse_narrow("the stream of all jobs' events")
    else:
        await call.check_jobs([job_id])
    last_seen = call.headers.get(b"last-event-id", b"").decode("latin-1")
    cursor = None
    # A browser that connects again says where it was; its address still says where it began.
    if last_seen:
        cursor = parse_cursor(last_seen, "Last-Event-ID")
    elif asked.after is not None:
        cursor = parse_cursor(asked.after, "after")
    follower = Follower(cursor, job_id)
    async with call.runtime.reads.transaction() as tx:
        await follower.start(tx)
    return Stream(pour(call.runtime, follower, types))


def parse_cursor(text: str, field: str) -> Cursor:
    """Read a position among all events, such as 8123-4711."""
    match = _CURSOR.fullmatch(text)
    if match is None or max(int(match[1]), int(match[2])) > ID_MAX:
        raise Invalid(field, f"{text[:50]!r} is not the id of an event; give one as it came")
    return Cursor(int(match[1]), int(match[2]))


async def pour(
    runtime: Runtime,
    follower: Follower,
    types: Sequence[str] | None,
    *,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
) -> AsyncGenerator[bytes, None]:
    """Write events as they come; an id at once, and when nothing happens for long."""
    clock = asyncio.get_running_loop().time
    quiet_since = clock()
    yield _write_id("events follow", follower.cursor)
    while not runtime.is_stopping:
        try:
            async with runtime.follows.transaction() as tx:
                found, is_all = await follower.read(tx)
        except Unavailable:
            # Whoever follows connects again and goes on where it was.
            return
        chunks = [_write_event(row) for row in found if types is None or row.type in types]
        if chunks:
            yield b"".join(chunks)
            quiet_since = clock()
        elif clock() - quiet_since >= keep_alive_seconds:
            yield _write_id("nothing new", follower.cursor)
            quiet_since = clock()
        if is_all:
            await asyncio.sleep(LOOK_SECONDS)


def _write_event(row: events.Event) -> bytes:
    return b"id: %d-%d\ndata: %b\n\n" % (row.txid, row.id, _encode(convert.event(row)))


def _write_id(comment: str, cursor: Cursor) -> bytes:
    """Write a comment, and an id without an event, so that a return begins where nothing is new."""
    return b": %b\nid: %d-%d\n\n" % (comment.encode(), *cursor)


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/jobs/{job_id}/events",
        list_job_events,
        EventPage,
        Role.READ,
        query=EventListQuery,
        attempt=AttemptMay.LIVE,
        at_replica=True,
    ),
    Route(
        "GET",
        SEARCH_PATH,
        search_all_events,
        EventPage,
        Role.READ,
        query=EventSearchQuery,
        at_replica=True,
    ),
    Route(
        "GET",
        "/api/tasks/{task_id}/events",
        list_task_events,
        EventPage,
        Role.READ,
        query=EventListQuery,
        attempt=AttemptMay.LIVE,
        at_replica=True,
    ),
    Route(
        "GET",
        "/api/events/stream",
        follow_events,
        None,
        Role.READ,
        query=EventStreamQuery,
        content_type="text/event-stream",
        narrowing=Narrowing.FUNCTION,
    ),
)
