"""Keep the output of attempts, up to a limit, as it arrives from their workers."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.errors import Invalid, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.fence import Fence, check_fence
from holdfast.model.ids import TaskId, check_index, check_task_id
from holdfast.store.database import Database
from holdfast.store.tables import logs
from holdfast.store.tables.attempts import find_attempt

STRETCH_BYTES_MAX = 1 << 20
# Workers stop at 16 MiB, and then have one more line to say.
LOG_BYTES_MAX = (16 << 20) + 1024
STRETCHES_PER_READ_MAX = 16


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


async def append_logs(ledger: Ledger, stretches: Sequence[Stretch]) -> set[Fence]:
    """Store output; returns the leases that are not the caller's, whose output is not kept."""
    for stretch in stretches:
        _check(stretch)
    # One statement cannot write a row twice: of the same stretch, the longest says it all.
    longest = {(s.fence, s.start_offset): s for s in sorted(stretches, key=_size)}
    async with ledger.database.transaction() as tx:
        kept = await logs.append_logs(tx, list(longest.values()))
    return {f for f, offset in longest if (*f.task_id, f.attempt, offset) not in kept}


async def append_log(ledger: Ledger, stretch: Stretch) -> None:
    """Store output of one attempt. Raises LeaseConflict if the lease is not the caller's."""
    if await append_logs(ledger, [stretch]):
        raise lost_lease(stretch.fence)


def lost_lease(fence: Fence) -> LeaseConflict:
    """Say that nothing is kept of an attempt."""
    return LeaseConflict(fence.task_id, "the lease is lost; its output is not kept")


async def read_log(
    database: Database, task_id: TaskId, *, attempt: int | None = None, start_offset: int = 0
) -> Log:
    """Read the output of an attempt (the latest, if none is named) from an offset on."""
    check_task_id(task_id)
    if attempt is not None:
        check_index(attempt, "attempt")
    if not 0 <= start_offset <= LOG_BYTES_MAX:
        raise Invalid("offset", "is not a place in a log; use next_offset of the last answer")
    async with database.transaction() as tx:
        found = await find_attempt(tx, task_id, attempt)
        if found is None:
            what = task_id if attempt is None else f"{task_id}.{attempt}"
            raise NotFound("attempt of task" if attempt is None else "attempt", what)
        number, is_open = found
        stretches = await logs.read_log(
            tx, task_id, number, start_offset=start_offset, batch_max=STRETCHES_PER_READ_MAX
        )
    joined, is_whole = _join(stretches, start_offset)
    is_all = is_whole and len(stretches) < STRETCHES_PER_READ_MAX
    return joined._replace(attempt=number, is_complete=not is_open and is_all)


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
