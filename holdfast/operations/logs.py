"""Keep the output of attempts, up to a limit, as it arrives from their workers."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import Invalid, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId, check_index, check_task_id
from holdfast.operations.report import Fence, check_fence, fence_columns
from holdfast.store.database import Database
from holdfast.store.statements import load_statements

_ATTEMPTS = load_statements("attempts")
STRETCH_BYTES_MAX = 1 << 20
# Workers stop at 16 MiB, and then have one more line to say.
LOG_BYTES_MAX = (16 << 20) + 1024
STRETCHES_PER_READ_MAX = 16


class Stretch(NamedTuple):
    """Some output of an attempt, from `start_offset` on."""

    fence: Fence
    start_offset: int
    content: bytes


class Log(NamedTuple):
    """What has been read of a log; `is_complete` means that nothing more will come."""

    attempt: int
    start_offset: int
    content: bytes
    is_complete: bool


async def append_logs(ledger: Ledger, stretches: Sequence[Stretch]) -> None:
    """Store output; all of it, or none if a lease among them is not the caller's."""
    for stretch in stretches:
        _check(stretch)
    # One statement cannot write a row twice: of the same stretch, the longest says it all.
    longest = {(s.fence, s.start_offset): s for s in sorted(stretches, key=_size)}
    different = list(longest.values())
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(
            _ATTEMPTS["append_logs"],
            **fence_columns([stretch.fence for stretch in different]),
            start_offsets=[stretch.start_offset for stretch in different],
            contents=[stretch.content for stretch in different],
        )
        kept = {tuple(row) for row in rows}
        for fence, start_offset in longest:
            if (*fence.task_id, fence.attempt, start_offset) not in kept:
                raise LeaseConflict(fence.task_id, "the lease is lost; its output is not kept")


async def read_log(
    database: Database, task_id: TaskId, *, attempt: int | None = None, start_offset: int = 0
) -> Log:
    """Read the output of an attempt (the latest, if none is named) from an offset on."""
    check_task_id(task_id)
    if attempt is not None:
        check_index(attempt, "attempt")
    if not 0 <= start_offset <= LOG_BYTES_MAX:
        raise Invalid("offset", "is not a place in a log; use next_offset of the last answer")
    place = {"job_id": task_id.job_id, "task_index": task_id.task_index}
    async with database.transaction() as tx:
        found = await tx.fetch_one(_ATTEMPTS["find_attempt"], **place, attempt=attempt)
        if found is None:
            what = task_id if attempt is None else f"{task_id}.{attempt}"
            raise NotFound("attempt of task" if attempt is None else "attempt", what)
        number, is_open = found
        rows = await tx.fetch(
            _ATTEMPTS["read_log"],
            **place,
            attempt=number,
            start_offset=start_offset,
            batch_max=STRETCHES_PER_READ_MAX,
        )
    first, content, is_whole = _join([tuple(row) for row in rows], start_offset)
    is_all = is_whole and len(rows) < STRETCHES_PER_READ_MAX
    return Log(number, first, content, is_complete=not is_open and is_all)


def _join(rows: list[tuple[int, bytes]], start_offset: int) -> tuple[int, bytes, bool]:
    """Put stretches together up to the first gap; one that lies before them is stepped over."""
    parts: list[bytes] = []
    first = place = start_offset
    for start, content in rows:
        if start > place:
            if parts:
                return first, b"".join(parts), False
            first = place = start
        new = content[place - start :]
        if new:
            parts.append(new)
            place += len(new)
    return first, b"".join(parts), True


def _size(stretch: Stretch) -> int:
    return len(stretch.content)


def _check(stretch: Stretch) -> None:
    check_fence(stretch.fence)
    end = stretch.start_offset + len(stretch.content)
    if stretch.start_offset < 0:
        raise Invalid("offset", "is negative; a log starts at 0")
    if len(stretch.content) > STRETCH_BYTES_MAX:
        raise TooLarge("content", len(stretch.content), STRETCH_BYTES_MAX)
    if end > LOG_BYTES_MAX:
        raise TooLarge("offset", end, LOG_BYTES_MAX)
