"""What tasks wait for, and the signals that they keep."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SIGNALS = load_statements("reads/work/signals")
NAMES_MAX = 20


class ParkedRow(NamedTuple):
    """The signal that a task waits for, since when, and until when if it has a time-out."""

    task_index: int
    name: str
    since: datetime
    until: datetime | None


class KeptRow(NamedTuple):
    """Signals of one name that nobody has waited for, how many, and since when."""

    name: str
    number: int
    since: datetime


async def list_parked(
    tx: Transaction, job_id: int, task_indexes: Sequence[int]
) -> dict[int, ParkedRow]:
    """List those of a job's tasks that wait for a signal, by index."""
    rows = await tx.fetch(_SIGNALS["list_parked"], job_id=job_id, task_indexes=task_indexes)
    return {row[0]: ParkedRow._make(row) for row in rows}


async def list_kept(tx: Transaction, task_id: TaskId) -> list[KeptRow]:
    """List the signals that a task keeps for waits to come."""
    rows = await tx.fetch(_SIGNALS["list_kept"], **task_id._asdict(), count_max=NAMES_MAX)
    return list(map(KeptRow._make, rows))
