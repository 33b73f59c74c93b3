"""Keep the output of attempts as it arrives from their workers: of a long one, both ends."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from holdfast.errors import Invalid, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import TaskId, check_index, check_task_id
from holdfast.model.work.log_limits import HEAD_BYTES, TAIL_BYTES
from holdfast.rules.reading.log_lines import LineCounter
from holdfast.store.database import Database, Transaction
from holdfast.store.tables.output import logs
from holdfast.store.tables.work.attempts import FoundAttempt, find_attempt

STRETCH_BYTES_MAX = 1 << 20
# A log goes on for as long as its attempt; its offsets stay exact in every program that reads them.
OFFSET_MAX = 1 << 53
READ_BYTES_MAX = 1 << 20
COUNTED_BYTES_PER_READ = 4 << 20
STRETCHES_PER_READ_MAX = 10_000
LINES_MAX = 1 << 31
# No longer, and nothing of a log is left out.
_LENGTH_MAX = HEAD_BYTES + TAIL_BYTES + STRETCH_BYTES_MAX


class Stretch(NamedTuple):
    """Some output of an attempt, from `start_offset` on."""

    fence: Fence
    start_offset: int
    content: bytes


class StoredAt(NamedTuple):
    """When the bytes of a log were stored, from an offset on."""

    start_offset: int
    at: datetime


class Log(NamedTuple):
    """What has been read of a log; `is_complete` means that nothing more will come."""

    attempt: int
    start_offset: int
    content: bytes
    is_complete: bool
    times: Sequence[StoredAt] = ()
    # Bytes before these that were wanted, and that are not kept because the log is too long.
    left_out: int = 0


class LineStart(NamedTuple):
    """Where a line of an attempt's log begins, and which one it is, counted from 1."""

    attempt: int
    start_offset: int
    line: int


async def append_logs(ledger: Ledger, stretches: Sequence[Stretch]) -> set[Fence]:
    """Store output; returns the leases that are not the caller's, whose output is not kept."""
    for stretch in stretches:
        _check(stretch)
    # One statement cannot write a row twice: of the same stretch, the longest says it all.
    longest = {(s.fence, s.start_offset): s for s in sorted(stretches, key=_size)}
    async with ledger.database.transaction() as tx:
        kept = await logs.append_logs(tx, list(longest.values()))
        stored = [s for (f, at), s in longest.items() if (*f.task_id, f.attempt, at) in kept]
        if long := _list_long(stored):
            await logs.trim_logs(tx, long, head_bytes=HEAD_BYTES)
    return {f for f, offset in longest if (*f.task_id, f.attempt, offset) not in kept}


async def append_log(ledger: Ledger, stretch: Stretch) -> None:
    """Store output of one attempt. Raises LeaseConflict if the lease is not the caller's."""
    if await append_logs(ledger, [stretch]):
        raise lost_lease(stretch.fence)


def lost_lease(fence: Fence) -> LeaseConflict:
    """Say that nothing is kept of an attempt."""
    return LeaseConflict(fence.task_id, "the lease is lost; its output is not kept")


async def read_log(
    database: Database,
    task_id: TaskId,
    *,
    attempt: int | None = None,
    start_offset: int = 0,
    bytes_max: int = READ_BYTES_MAX,
) -> Log:
    """Read the output of an attempt (the latest, if none is named) from an offset on."""
    if not 0 <= start_offset <= OFFSET_MAX:
        raise Invalid("offset", "is not a place in a log; use next_offset of the last answer")
    if not 1 <= bytes_max <= READ_BYTES_MAX:
        raise Invalid("bytes_max", f"is not between 1 and {READ_BYTES_MAX}")
    async with database.transaction() as tx:
        number, is_open = await _get_attempt(tx, task_id, attempt)
        log, is_all = await _read(
            tx, task_id, number, start_offset=start_offset, bytes_max=bytes_max
        )
    return log._replace(is_complete=not is_open and is_all)


async def find_line(
    database: Database, task_id: TaskId, *, attempt: int | None = None, line: int
) -> LineStart:
    """Find where a line of an attempt's output begins; a negative one counts from the end.

    Before the first line is the first, after the last the end of what is there by now.
    """
    if not 0 < abs(line) <= LINES_MAX:
        raise Invalid("line" if line >= 0 else "tail", "is no number of lines; count from 1")
    async with database.snapshot() as tx:  # or it could grow for ever meanwhile
        number, _ = await _get_attempt(tx, task_id, attempt)
        read = partial(_read, tx, task_id, number, bytes_max=COUNTED_BYTES_PER_READ)
        # Where each part of the log begins that was read, and what had been counted before it.
        parts: list[tuple[int, LineCounter]] = []
        counter, offset, is_all = LineCounter(), 0, False
        while not is_all:
            log, is_all = await read(start_offset=offset)
            if log.left_out and log.content:
                counter.add_left_out()
            start = counter.copy()
            counter.add(log.content)
            offset = log.start_offset + len(log.content)
            parts.append((log.start_offset, start))
            if 0 < line <= counter.ended:
                break
        wanted = max(1, counter.begun + 1 + line) if line < 0 else line
        following = LineStart(number, offset, counter.begun + 1)
        for start_offset, start in reversed(parts):
            if start.ended >= wanted:  # or the line stands for what is left out before this
                following = LineStart(number, start_offset, start.ended + 1)
                continue
            if log.start_offset != start_offset:  # the last part is at hand
                log, _ = await read(start_offset=start_offset)
            found = start.find(wanted, log.content)
            if found >= 0:
                return LineStart(number, start_offset + found, wanted)
            if start.ended + 1 < wanted:
                break
    return following


async def _get_attempt(tx: Transaction, task_id: TaskId, attempt: int | None) -> FoundAttempt:
    check_task_id(task_id)
    if attempt is not None:
        check_index(attempt, "attempt")
    found = await find_attempt(tx, task_id, attempt)
    if found is None:
        what = task_id if attempt is None else f"{task_id}.{attempt}"
        raise NotFound("attempt of task" if attempt is None else "attempt", what)
    return found


async def _read(
    tx: Transaction, task_id: TaskId, attempt: int, *, start_offset: int, bytes_max: int
) -> tuple[Log, bool]:
    """Read some output; tells whether that was the last of it by now."""
    stretches = await logs.read_log(
        tx,
        task_id,
        attempt,
        start_offset=start_offset,
        bytes_max=bytes_max,
        count_max=STRETCHES_PER_READ_MAX,
    )
    joined, is_whole = _join(stretches, start_offset)
    log = _cut(joined._replace(attempt=attempt), bytes_max)
    if log.start_offset > max(start_offset, HEAD_BYTES):
        log = log._replace(left_out=log.start_offset - start_offset)
    is_all = is_whole and len(log.content) == len(joined.content)
    if is_all and stretches:
        last = stretches[-1].start_offset
        is_all = not await logs.has_later_output(tx, task_id, attempt, start_offset=last)
    return log, is_all


def _cut(log: Log, bytes_max: int) -> Log:
    end = log.start_offset + bytes_max
    times = [time for time in log.times if time.start_offset < end]
    return log._replace(content=log.content[:bytes_max], times=times)


def _join(stretches: Sequence[logs.Stretch], start_offset: int) -> tuple[Log, bool]:
    """Put stretches together up to the first gap; one that lies before them is stepped over.

    Tells whether that was all of them.
    """
    parts: list[bytes] = []
    times: list[StoredAt] = []
    first = offset = start_offset
    for start, content, stored_at in stretches:
        if start > offset:
            if parts:
                return Log(0, first, b"".join(parts), False, times), False
            first = offset = start
        new = content[offset - start :]
        if new:
            parts.append(new)
            times.append(StoredAt(offset, stored_at))
            offset += len(new)
    return Log(0, first, b"".join(parts), False, times), True


def _list_long(stretches: Iterable[Stretch]) -> list[logs.LongLog]:
    """List the logs whose middle is to be deleted, as far as the newest output tells."""
    ends: dict[tuple[TaskId, int], int] = {}
    for (task_id, attempt, _), start_offset, content in stretches:
        end = start_offset + len(content)
        ends[task_id, attempt] = max(end, ends.get((task_id, attempt), 0))
    # A stretch that begins so far before the tail cannot reach into it.
    margin = TAIL_BYTES + STRETCH_BYTES_MAX
    return [logs.LongLog(*key, end - margin) for key, end in ends.items() if end > _LENGTH_MAX]


def _size(stretch: Stretch) -> int:
    return len(stretch.content)


def _check(stretch: Stretch) -> None:
    check_fence(stretch.fence)
    end = stretch.start_offset + len(stretch.content)
    if stretch.start_offset < 0:
        raise Invalid("offset", "is negative; a log starts at 0")
    if len(stretch.content) > STRETCH_BYTES_MAX:
        raise TooLarge("content", len(stretch.content), STRETCH_BYTES_MAX)
    if end > OFFSET_MAX:
        raise TooLarge("offset", end, OFFSET_MAX)
