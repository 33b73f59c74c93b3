"""The table of logs: the output of attempts, stretch by stretch."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import attempt_columns, fence_columns

_ATTEMPTS = load_statements("work/attempts")


class StoredStretch(NamedTuple):
    """Output of an attempt that is stored."""

    job_id: int
    task_index: int
    attempt: int
    start_offset: int


async def append_logs(
    tx: Transaction, stretches: Sequence[tuple[Fence, int, bytes]]
) -> set[StoredStretch]:
    """Store output from offsets on; of a stretch that is there, the longer one stays.

    Returns what was stored: those without a lease are left out.
    """
    rows = await tx.fetch(
        _ATTEMPTS["append_logs"],
        **fence_columns([fence for fence, _, _ in stretches]),
        start_offsets=[start_offset for _, start_offset, _ in stretches],
        contents=[content for _, _, content in stretches],
    )
    return set(map(StoredStretch._make, rows))


class LongLog(NamedTuple):
    """A log that has grown beyond its limit, and from where on its tail is kept."""

    task_id: TaskId
    attempt: int
    tail_offset: int


async def trim_logs(tx: Transaction, logs: Sequence[LongLog], *, head_bytes: int) -> None:
    """Delete what lies between the head of logs and their tail."""
    await tx.fetch(
        _ATTEMPTS["trim_logs"],
        **attempt_columns([(log.task_id, log.attempt) for log in logs]),
        tail_offsets=[log.tail_offset for log in logs],
        head_bytes=head_bytes,
    )


class Stretch(NamedTuple):
    """Some output, from an offset on."""

    start_offset: int
    content: bytes
    stored_at: datetime


async def read_log(
    tx: Transaction,
    task_id: TaskId,
    attempt: int,
    *,
    start_offset: int,
    bytes_max: int,
    count_max: int,
) -> list[Stretch]:
    """Read output from the stretch on that holds an offset, as many bytes as are wanted or more."""
    rows = await tx.fetch(
        _ATTEMPTS["read_log"],
        job_id=task_id.job_id,
        task_index=task_id.task_index,
        attempt=attempt,
        start_offset=start_offset,
        bytes_max=bytes_max,
        count_max=count_max,
    )
    return list(map(Stretch._make, rows))


async def has_later_output(
    tx: Transaction, task_id: TaskId, attempt: int, *, start_offset: int
) -> bool:
    """Tell whether a stretch of output begins after an offset."""
    row = await tx.fetch_one(
        _ATTEMPTS["has_later_output"],
        job_id=task_id.job_id,
        task_index=task_id.task_index,
        attempt=attempt,
        start_offset=start_offset,
    )
    return row is not None and bool(row[0])
