"""Events: of a job or task by pages, or all of them, followed from a cursor without missing one.

Ids are handed out in order but commit out of order, so a reader that remembers the highest id it
has seen would miss a late commit. A cursor here is (transaction, id), and only transactions below
the snapshot's oldest running one are read: nothing can be added behind a cursor any more. Within
one stream the order is that of `seq`: a transaction that began earlier may move a task later.

A follower reads a stretch of transactions at a time, as many as give about a page: without an end,
everything after its cursor would be sorted for each page, which a reader that comes back after a
day could not afford. When a stretch holds nothing for it, its cursor moves on all the same.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_EVENTS = load_statements("reads/output/events")
ID_MAX = 2**63 - 1
PAGE_MAX = 1000
STRETCH_FIRST = 1000
STRETCH_MAX = 1_000_000
EVENTS_EXAMINED_MAX = 5000
# Of a job, few are looked at first: where that is not enough, they tell how many lie how close.
EVENTS_PROBED_MAX = 1000
JOB_STRETCH_FIRST = timedelta(seconds=4)
TIME_RESOLUTION = timedelta(microseconds=1)
TIME_STRETCH_FIRST = timedelta(seconds=1)
TIME_STRETCH_LEAST = timedelta(milliseconds=1)
TIME_STRETCHES_MAX = 10
CORRELATED_TASKS_MAX = 5000
STRETCH_FACTOR = 8
# Servers of Postgres take over from one another, and their clocks differ a little.
CLOCK_SLACK = timedelta(seconds=1)


class Cursor(NamedTuple):
    """Where a reader of all events has got to."""

    txid: int = 0
    id: int = 0


class Event(NamedTuple):
    """One state change, or one thing that happened to a job."""

    id: int
    job_id: int
    task_index: int
    attempt: int
    seq: int
    type: str
    ts: datetime
    actor: str | None
    correlation_id: str
    trace_id: str | None
    cause: str | None
    payload: str | None
    version: int
    txid: int

    @property
    def cursor(self) -> Cursor:
        """Name the position right after this event."""
        return Cursor(self.txid, self.id)

    @property
    def moment(self) -> "Moment":
        """Name the same position among events that are listed by time."""
        return Moment(self.ts, self.id)


class Moment(NamedTuple):
    """A position in events that are listed by time."""

    ts: datetime = datetime.fromtimestamp(0, UTC)
    id: int = 0


async def list_events_of_job(
    tx: Transaction,
    job_id: int,
    types: Sequence[str] | None,
    *,
    after: Moment,
    page_size: int,
    large_since: datetime | None = None,
) -> list[Event]:
    """List what happened to a job and to its tasks, in the order of time.

    Of a large job all events would be sorted for each page, so they are looked for by their time
    first: give since when it is there.
    """
    if large_since is not None:
        near = await _list_events_by_time(
            tx, job_id, types, after=after, page_size=page_size, since=large_since
        )
        if near is not None:
            return near
    rows = await tx.fetch(
        _EVENTS["list_events_of_job"],
        job_id=job_id,
        types=types,
        after_ts=after.ts,
        after_id=after.id,
        count_max=page_size,
    )
    return [Event(*row) for row in rows]


async def _list_events_by_time(
    tx: Transaction,
    job_id: int,
    types: Sequence[str] | None,
    *,
    after: Moment,
    page_size: int,
    since: datetime,
) -> list[Event] | None:
    """List events of a job stretch by stretch; None if too much else happened at the time."""
    found: list[Event] = []
    if after.ts < since:
        found = await _list_events_before(
            tx, job_id, types, after=after, page_size=page_size, until=since
        )
        if len(found) == page_size:
            return found
    begin, end_of_all = max(after.ts, since), await tx.now() + CLOCK_SLACK
    end, examined_max = begin + JOB_STRETCH_FIRST, EVENTS_PROBED_MAX
    for _ in range(TIME_STRETCHES_MAX):
        rows = await tx.fetch(
            _EVENTS["list_events_of_job_within"],
            job_id=job_id,
            types=types,
            begin_ts=begin,
            end_ts=end,
            after_ts=after.ts,
            after_id=after.id,
            examined_max=examined_max,
            count_max=page_size - len(found),
        )
        if not rows:
            return []
        examined, middle = rows[0]["examined"], rows[0]["middle_ts"]
        if examined == examined_max:
            if examined_max == EVENTS_EXAMINED_MAX:
                return None
            shorter = middle + TIME_RESOLUTION
            # So much at one moment cannot be cut any further.
            examined_max = EVENTS_PROBED_MAX if shorter < end else EVENTS_EXAMINED_MAX
            end = min(shorter, end)
            continue
        found += [Event(*row[2:]) for row in rows if row["id"] is not None]
        if len(found) == page_size or end > end_of_all:
            return found
        # As long as half of what may be looked at lasts, if it goes on like this.
        length = (end - begin) * min(EVENTS_PROBED_MAX / 2 / max(examined, 1), STRETCH_FACTOR)
        begin, end, examined_max = end, end + length, EVENTS_PROBED_MAX
    return None


async def _list_events_before(
    tx: Transaction,
    job_id: int,
    types: Sequence[str] | None,
    *,
    after: Moment,
    page_size: int,
    until: datetime,
) -> list[Event]:
    """List events of a job that are dated before it, by a Postgres whose clock was behind."""
    rows = await tx.fetch(
        _EVENTS["list_events_of_job_before"],
        job_id=job_id,
        types=types,
        begin_ts=until - CLOCK_SLACK,
        end_ts=until,
        after_ts=after.ts,
        after_id=after.id,
        count_max=page_size,
    )
    return [Event(*row) for row in rows]


async def list_events_of_task(
    tx: Transaction, task_id: TaskId, types: Sequence[str] | None, *, after: Moment, page_size: int
) -> list[Event]:
    """List what happened to one task, in the order of time."""
    rows = await tx.fetch(
        _EVENTS["list_events_of_task"],
        job_id=task_id.job_id,
        task_index=task_id.task_index,
        types=types,
        after_ts=after.ts,
        after_id=after.id,
        count_max=page_size,
    )
    return [Event(*row) for row in rows]


class SearchedPage(NamedTuple):
    """Events that were found, and where to go on; None at the end."""

    events: list[Event]
    following: Moment | None


async def end_of_search(tx: Transaction, until: datetime | None) -> datetime:
    """Decide where a search ends: nothing is later than now, but clocks differ a little."""
    return min(until or datetime.max.replace(tzinfo=UTC), await tx.now() + CLOCK_SLACK)


async def begin_of_correlation(tx: Transaction, correlation_id: str) -> Moment | None:
    """Tell before which moment nothing happened to these jobs; None if they can be read at once."""
    row = await tx.fetch_one(
        _EVENTS["measure_correlation"],
        correlation_id=correlation_id,
        jobs_max=CORRELATED_TASKS_MAX + 1,
    )
    assert row is not None, "a sum has a row"
    tasks, since = row
    return Moment(since - CLOCK_SLACK) if tasks > CORRELATED_TASKS_MAX else None


async def search_events(
    tx: Transaction,
    types: Sequence[str] | None,
    *,
    correlation_id: str | None,
    after: Moment,
    until: datetime | None,
    page_size: int,
) -> SearchedPage:
    """Search the events of all jobs, or of those with a correlation id, in the order of time.

    Looks at a bounded number of them: a page may be short and still not be the last one.
    """
    end = await end_of_search(tx, until)
    if correlation_id is not None:
        begin = await begin_of_correlation(tx, correlation_id)
        if begin is None:
            rows = await tx.fetch(
                _EVENTS["list_events_of_correlation"],
                correlation_id=correlation_id,
                types=types,
                after_ts=after.ts,
                after_id=after.id,
                until_ts=end,
                count_max=page_size,
            )
            found = [Event(*row) for row in rows]
            return SearchedPage(found, found[-1].moment if len(found) == page_size else None)
        after = max(after, begin)
    return await _search_by_time(
        tx, types, correlation_id=correlation_id, after=after, end=end, page_size=page_size
    )


async def _search_by_time(
    tx: Transaction,
    types: Sequence[str] | None,
    *,
    correlation_id: str | None,
    after: Moment,
    end: datetime,
    page_size: int,
) -> SearchedPage:
    """Search stretch by stretch, each about as long as half of what may be looked at lasts."""
    found: list[Event] = []
    begin, length = after.ts, TIME_STRETCH_FIRST
    for _ in range(TIME_STRETCHES_MAX):
        if begin >= end:
            return SearchedPage(found, None)
        rows = await tx.fetch(
            _EVENTS["list_events_within"],
            types=types,
            correlation_id=correlation_id,
            begin_ts=begin,
            end_ts=min(begin + length, end),
            after_ts=after.ts,
            after_id=after.id,
            # The events of one transaction may all be of the same moment.
            examined_max=EVENTS_EXAMINED_MAX if length > TIME_STRETCH_LEAST else None,
            count_max=page_size - len(found),
        )
        examined = rows[0]["examined"]
        if examined == EVENTS_EXAMINED_MAX and length > TIME_STRETCH_LEAST:
            length = max(length / STRETCH_FACTOR, TIME_STRETCH_LEAST)
            continue
        found += [Event(*row[1:]) for row in rows if row["id"] is not None]
        if len(found) == page_size:
            return SearchedPage(found, found[-1].moment)
        begin += length
        length *= min(EVENTS_EXAMINED_MAX / 2 / max(examined, 1), STRETCH_FACTOR)
        length = max(length, TIME_STRETCH_LEAST)
    return SearchedPage(found, Moment(begin))


class Follower:
    """One reader of events, of all jobs or of one; without a cursor it starts at the present."""

    def __init__(self, cursor: Cursor | None = None, job_id: int | None = None) -> None:
        self._cursor = cursor
        self._job_id = job_id
        # What lies behind is found by the job's own index, what is new by transaction.
        self._is_behind = True
        self._stretch = STRETCH_FIRST

    @property
    def cursor(self) -> Cursor:
        """Tell where it stands: everything up to here has been read."""
        assert self._cursor is not None, "it has not started"
        return self._cursor

    async def start(self, tx: Transaction) -> None:
        """Take up its position: what is committed from now on will be read."""
        horizon = await read_horizon(tx)
        self._cursor = self._cursor or Cursor(horizon - 1, ID_MAX)

    async def read(self, tx: Transaction) -> tuple[list[Event], bool]:
        """Read the next events, and say whether all there are have been read."""
        horizon = await read_horizon(tx)
        present = Cursor(horizon - 1, ID_MAX)
        if self.cursor >= present:
            self._is_behind = False
            return [], True
        if self._is_behind and self._job_id is not None:
            events = await self._read_job(tx, horizon)
        else:
            events = await self._read_stretch(tx, horizon)
        return events, self.cursor >= present

    async def _read_job(self, tx: Transaction, end: int) -> list[Event]:
        rows = await tx.fetch(
            _EVENTS["read_events_of_job_between"],
            job_id=self._job_id,
            txid=self.cursor.txid,
            id=self.cursor.id,
            end_txid=end,
            count_max=PAGE_MAX,
        )
        self._is_behind = self._move_on(rows, end)
        return _of_kept_jobs(rows)

    async def _read_stretch(self, tx: Transaction, horizon: int) -> list[Event]:
        end = min(horizon, self.cursor.txid + 1 + self._stretch)
        rows = await tx.fetch(
            _EVENTS["read_events_between"],
            txid=self.cursor.txid,
            id=self.cursor.id,
            end_txid=end,
            count_max=PAGE_MAX,
        )
        if self._move_on(rows, end):
            self._stretch = max(self._stretch // 2, 1)
        else:
            self._stretch = min(self._stretch * 2, STRETCH_MAX)
        events = _of_kept_jobs(rows)
        if self._job_id is None:
            return events
        return [event for event in events if event.job_id == self._job_id]

    def _move_on(self, rows: Sequence[Any], end: int) -> bool:
        """Move behind the page, or to the end of the stretch; says whether the page is full."""
        is_full = len(rows) == PAGE_MAX
        last = rows[-1] if is_full else None
        self._cursor = Cursor(last["txid"], last["id"]) if last else Cursor(end - 1, ID_MAX)
        return is_full


def _of_kept_jobs(rows: Sequence[Any]) -> list[Event]:
    """Leave out the events of jobs that retention has deleted: they go with the partition."""
    return [Event(*row) for row in rows if row["correlation_id"] is not None]


async def list_changed_jobs(
    tx: Transaction, first_txid: int, end_txid: int, *, count_max: int, events_max: int
) -> list[int] | None:
    """List jobs with events of a stretch of transactions, in no order; None if these are many."""
    rows = await tx.fetch(
        _EVENTS["list_changed_jobs"],
        first_txid=first_txid,
        end_txid=end_txid,
        count_max=count_max + 1,
        events_max=events_max,
    )
    if len(rows) > count_max or (rows and rows[0]["is_cut"]):
        return None
    return [row["job_id"] for row in rows]


async def read_horizon(tx: Transaction) -> int:
    """Read below which transaction all have ended."""
    row = await tx.fetch_one(_EVENTS["read_horizon"])
    assert row is not None
    horizon: int = row[0]
    return horizon
