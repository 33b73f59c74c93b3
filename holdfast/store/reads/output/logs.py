"""The output of a job's tasks, in the order in which it was stored."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.statements import load_statements

_LOGS = load_statements("reads/output/logs")
# Output is read up to a moment ago, or up to when the oldest write began that has not ended yet: a
# commit may take a while, and what a reader has passed it does not come back for.
QUIET = timedelta(seconds=1)
PATIENCE = timedelta(seconds=60)
PAGE_BYTES_MAX = 1 << 20
STRETCHES_EXAMINED_MAX = 10_000


class LogPosition(NamedTuple):
    """The position of a stretch of output in that of its job."""

    stored_at: datetime
    task_index: int
    attempt: int
    start_offset: int


FIRST_STRETCH = LogPosition(datetime.fromtimestamp(0, UTC), -1, 0, 0)


class StretchRow(NamedTuple):
    """Some output of one attempt."""

    position: LogPosition
    content: bytes


class LogPage(NamedTuple):
    """Some output, and the position after which the next stands; complete if there is no next."""

    stretches: list[StretchRow]
    last: LogPosition
    is_complete: bool


async def read_job_log(
    tx: Transaction,
    job: JobRow,
    task_index: int | None = None,
    *,
    after: LogPosition = FIRST_STRETCH,
    page_size: int,
    bytes_max: int = PAGE_BYTES_MAX,
) -> LogPage:
    """Read the output of a job's tasks, or of one, in the order in which it was stored.

    A page may be short, even empty, and still not be the last one.
    """
    until, is_over = await _look(tx, job)
    examined_max = page_size if task_index is None else STRETCHES_EXAMINED_MAX
    walked = await walk_job_log(tx, job.job_id, after=after, until=until, count_max=examined_max)
    is_all = len(walked) < examined_max
    last = walked[-1][0] if walked else after
    wanted: list[LogPosition] = []
    size = 0
    for position, stretch_size in walked:
        if task_index is not None and position.task_index != task_index:
            continue
        size += stretch_size
        if wanted and (size > bytes_max or len(wanted) == page_size):
            is_all, last = False, wanted[-1]
            break
        wanted.append(position)
    stretches = await read_stretches(tx, job.job_id, wanted) if wanted else []
    return LogPage(stretches, last, is_complete=is_over and is_all)


async def _look(tx: Transaction, job: JobRow) -> tuple[datetime, bool]:
    """Tell before which moment all output has been stored, and whether that is all there is."""
    # Asked first: with no lease left, nobody can write what a walk after it does not see.
    is_held = await tx.fetch_one(_LOGS["has_lease"], job_id=job.job_id) is not None
    row = await tx.fetch_one(_LOGS["read_stored_until"], quiet=QUIET, patience=PATIENCE)
    assert row is not None, "a minimum has a row"
    until = row[0]
    return until, job.finished_at is not None and job.finished_at < until and not is_held


class LogTail(NamedTuple):
    """The last output before a position; `first` and `last` are those of its stretches.

    `is_first` if none stands before it, `is_complete` if after the whole log nothing will come.
    """

    stretches: list[StretchRow]
    first: LogPosition
    last: LogPosition
    is_first: bool
    is_complete: bool


async def read_job_log_back(
    tx: Transaction,
    job: JobRow,
    *,
    before: LogPosition | None = None,
    page_size: int,
    bytes_max: int = PAGE_BYTES_MAX,
) -> LogTail:
    """Read the end of a job's output, or what stands before a position, in the order of storing."""
    until, is_over = await _look(tx, job)
    at = LogPosition(until, 0, 0, 0) if before is None else before
    rows = await tx.fetch(
        _LOGS["walk_job_log_back"],
        job_id=job.job_id,
        until=until,
        stored_at=at.stored_at,
        before_index=at.task_index,
        before_attempt=at.attempt,
        before_offset=at.start_offset,
        count_max=page_size + 1,
    )
    wanted: list[LogPosition] = []
    size = 0
    for row in rows[:page_size]:
        size += row["size"]
        if wanted and size > bytes_max:
            break
        wanted.append(LogPosition(*row[:4]))
    wanted.reverse()
    stretches = await read_stretches(tx, job.job_id, wanted) if wanted else []
    first, last = (wanted[0], wanted[-1]) if wanted else (FIRST_STRETCH, FIRST_STRETCH)
    return LogTail(stretches, first, last, len(wanted) == len(rows), is_over)


async def walk_job_log(
    tx: Transaction, job_id: int, *, after: LogPosition, until: datetime, count_max: int
) -> list[tuple[LogPosition, int]]:
    """List stretches in the order in which they were stored, before a moment, and their sizes."""
    rows = await tx.fetch(
        _LOGS["walk_job_log"],
        job_id=job_id,
        until=until,
        stored_at=after.stored_at,
        after_index=after.task_index,
        after_attempt=after.attempt,
        after_offset=after.start_offset,
        count_max=count_max,
    )
    return [(LogPosition(*row[:4]), row["size"]) for row in rows]


async def read_stretches(
    tx: Transaction, job_id: int, positions: Sequence[LogPosition]
) -> list[StretchRow]:
    """Read the output of stretches, in the order in which they are named."""
    stored = {position[1:]: position for position in positions}
    rows = await tx.fetch(
        _LOGS["read_stretches"],
        job_id=job_id,
        task_indexes=[position.task_index for position in positions],
        attempts=[position.attempt for position in positions],
        start_offsets=[position.start_offset for position in positions],
    )
    return [StretchRow(stored[tuple(row[:3])], row[3]) for row in rows]
