"""The table of logs: the output of attempts, stretch by stretch."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.model.fence import Fence
from holdfast.model.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import fence_columns

_ATTEMPTS = load_statements("attempts")


class NewStretch(NamedTuple):
    """Some output of an attempt, from an offset on."""

    fence: Fence
    start_offset: int
    content: bytes


class StoredStretch(NamedTuple):
    """Output of an attempt that is stored."""

    job_id: int
    task_index: int
    attempt: int
    start_offset: int


async def append_logs(tx: Transaction, stretches: Sequence[NewStretch]) -> set[StoredStretch]:
    """Store output of those that hold a lease; of a stretch that is there, the longer one stays."""
    rows = await tx.fetch(
        _ATTEMPTS["append_logs"],
        **fence_columns([stretch.fence for stretch in stretches]),
        start_offsets=[stretch.start_offset for stretch in stretches],
        contents=[stretch.content for stretch in stretches],
    )
    return set(map(StoredStretch._make, rows))


class Stretch(NamedTuple):
    """Some output, from an offset on."""

    start_offset: int
    content: bytes


async def read_log(
    tx: Transaction, task_id: TaskId, attempt: int, *, start_offset: int, batch_max: int
) -> list[Stretch]:
    """Read the output of an attempt from the stretch on that holds an offset."""
    rows = await tx.fetch(
        _ATTEMPTS["read_log"],
        job_id=task_id.job_id,
        task_index=task_id.task_index,
        attempt=attempt,
        start_offset=start_offset,
        batch_max=batch_max,
    )
    return list(map(Stretch._make, rows))
