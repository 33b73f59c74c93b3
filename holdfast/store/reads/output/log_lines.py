"""Lines of a job's output, searched by a text and by the time at which they were stored."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import NamedTuple

from holdfast.rules.reading.log_lines import LINE_BYTES_MAX, Run, find_lines, join_stretches
from holdfast.store.database import Transaction
from holdfast.store.reads.output.logs import (
    FIRST_STRETCH,
    STRETCHES_EXAMINED_MAX,
    LogPosition,
    read_stretches,
    walk_job_log,
)
from holdfast.store.statements import load_statements

_LOGS = load_statements("reads/output/logs")
SEARCHED_BYTES_MAX = 8 << 20
FOUND_BYTES_MAX = 1 << 20
# A line that is written bit by bit may go on in so many later stretches.
STRETCHES_OF_LINE_MAX = 64
# The offset that stands for the whole of a stretch.
WHOLE = (1 << 62) - 1
END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)


class LinePosition(NamedTuple):
    """A line of a job's output, by the stretch in which it begins and its own offset."""

    stretch: LogPosition
    offset: int


class LineRow(NamedTuple):
    """A line, without its end."""

    position: LinePosition
    content: bytes


class Wanted(NamedTuple):
    """Which lines are searched for; what is left out matches all."""

    text: bytes = b""
    since: datetime | None = None
    until: datetime | None = None
    task_index: int | None = None
    attempt: int | None = None

    def is_of(self, stretch: LogPosition) -> bool:
        """Tell whether a stretch is of the task and attempt that are searched."""
        return self.task_index in (None, stretch.task_index) and self.attempt in (
            None,
            stretch.attempt,
        )


async def search_job_log(
    tx: Transaction,
    job_id: int,
    wanted: Wanted,
    *,
    after: LinePosition | None = None,
    page_size: int,
    bytes_max: int | None = None,
) -> tuple[list[LineRow], LinePosition | None]:
    """Search the output of a job, in the order in which it was stored.

    A page ends after so many bytes, and may be empty; the second value says where to go on, and is
    None at the end.
    """
    budget = bytes_max or (SEARCHED_BYTES_MAX if wanted.text else FOUND_BYTES_MAX)
    positions, last = await _choose(tx, job_id, wanted, after=after, bytes_max=budget)
    runs = await _read_runs(tx, job_id, positions) if positions else []
    found: list[LineRow] = []
    size = 0
    for line in sorted(_find(runs, wanted.text, after=after, count_max=page_size + 1)):
        size += len(line.content)
        if found and (len(found) == page_size or size > FOUND_BYTES_MAX):
            return found, found[-1].position
        found.append(line)
    return found, None if last is None else LinePosition(last, WHOLE)


async def _choose(
    tx: Transaction,
    job_id: int,
    wanted: Wanted,
    *,
    after: LinePosition | None,
    bytes_max: int,
) -> tuple[list[LogPosition], LogPosition | None]:
    """Choose the next stretches to look into; tells the last one, unless all were looked at."""
    start = FIRST_STRETCH if wanted.since is None else LogPosition(wanted.since, -1, 0, 0)
    if after is not None:
        start = after.stretch
        if after.offset != WHOLE:  # it has more lines
            start = start._replace(start_offset=start.start_offset - 1)
    until = wanted.until or END_OF_TIME
    walked = await walk_job_log(
        tx, job_id, after=start, until=until, count_max=STRETCHES_EXAMINED_MAX
    )
    chosen: list[LogPosition] = []
    total = 0
    last = start
    for position, size in walked:
        if wanted.is_of(position):
            total += size
            if chosen and total > bytes_max:
                return chosen, last
            chosen.append(position)
        last = position
    return chosen, None if len(walked) < STRETCHES_EXAMINED_MAX else last


class _Run(NamedTuple):
    """Output of one attempt without a gap, what stands around it, and its stretches."""

    run: Run
    before: bytes
    following: bytes
    stretches: list[LogPosition]


async def _read_runs(tx: Transaction, job_id: int, positions: Sequence[LogPosition]) -> list[_Run]:
    rows = sorted(await read_stretches(tx, job_id, positions), key=lambda row: row.position[1:])
    found: list[tuple[Run, list[LogPosition]]] = []
    for _, group in groupby(rows, key=lambda row: row.position[1:3]):
        stretches = list(group)
        joined = join_stretches([Run(r.position.start_offset, r.content) for r in stretches])
        found += ((run, [row.position for row in stretches]) for run in joined)
    around = await tx.fetch(
        _LOGS["read_around"],
        job_id=job_id,
        task_indexes=[stretches[0].task_index for _, stretches in found],
        attempts=[stretches[0].attempt for _, stretches in found],
        start_offsets=[run.start_offset for run, _ in found],
        end_offsets=[run.end_offset for run, _ in found],
        bytes_max=LINE_BYTES_MAX,
        count_max=STRETCHES_OF_LINE_MAX,
    )
    return [
        _Run(run, before or b"", following, stretches)
        for (run, stretches), (before, following) in zip(found, around, strict=True)
    ]


def _find(
    runs: Sequence[_Run], text: bytes, *, after: LinePosition | None, count_max: int
) -> Iterator[LineRow]:
    """Find lines after a position: of each run the first ones, more of which no page holds."""
    for run, before, following, stretches in runs:
        starts = [stretch.start_offset for stretch in stretches]
        lines = (
            LineRow(
                LinePosition(stretches[bisect_right(starts, line.offset) - 1], line.offset),
                line.content,
            )
            for line in find_lines(run, text, before=before, after=following)
        )
        yield from islice(
            (row for row in lines if after is None or row.position > after), count_max
        )
