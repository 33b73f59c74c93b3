"""The tables of signals: what was sent to tasks, and the waits of their functions."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import attempt_columns

_SIGNALS = load_statements("work/signals")

PutOutcome = Literal[
    "sent", "repeated", "no_job", "no_task", "which_task", "other_content", "ended", "too_many"
]


class PutSignal(NamedTuple):
    """What became of a signal: sent, as which one of its name to which task, or why not."""

    outcome: PutOutcome
    task_index: int | None
    number: int | None


async def put_signal(
    tx: Transaction,
    job_id: int,
    task_index: int | None,
    *,
    name: str,
    payload: str,
    key: str | None,
    sender: str,
) -> PutSignal:
    """Lock a task and keep a signal for it; if it waits for that, it is due."""
    row = await tx.fetch_one(
        _SIGNALS["put_signal"],
        job_id=job_id,
        task_index=task_index,
        name=name,
        payload=payload,
        key=key,
        sender=sender,
    )
    assert row is not None, "a function has a row"
    return PutSignal._make(row)


class WaitKey(NamedTuple):
    """Which wait of a task: the name of the signal, and the how-manieth wait for it."""

    task_id: TaskId
    name: str
    number: int

    def values(self) -> dict[str, Any]:
        """Name the four values."""
        return {**self.task_id._asdict(), "name": self.name, "number": self.number}


class FoundWait(NamedTuple):
    """A wait that was asked for before, and the signal that has ended it, if one has."""

    since: datetime
    until: datetime | None
    has_ended: bool
    signal_number: int | None
    payload: str | None


async def find_wait(tx: Transaction, key: WaitKey) -> FoundWait | None:
    """Find a wait of a locked task."""
    row = await tx.fetch_one(_SIGNALS["find_wait"], **key.values())
    return None if row is None else FoundWait._make(row)


async def ask_wait(
    tx: Transaction, key: WaitKey, *, attempt: int, timeout: timedelta | None
) -> None:
    """Note that an attempt asks; of a wait that is known, the time goes on."""
    await tx.fetch(_SIGNALS["ask_wait"], **key.values(), attempt=attempt, timeout=timeout)


async def take_signal(tx: Transaction, key: WaitKey) -> str | None:
    """End a wait by the next signal of its name; returns its payload, or None if there is none."""
    row = await tx.fetch_one(_SIGNALS["take_signal"], **key.values())
    return None if row is None else row[0]


async def time_out_wait(tx: Transaction, key: WaitKey) -> bool:
    """End a wait whose time is over; False if it is not."""
    return await tx.fetch_one(_SIGNALS["time_out_wait"], **key.values()) is not None


async def list_asked(
    tx: Transaction, attempts: Sequence[tuple[TaskId, int]]
) -> Mapping[TaskId, str]:
    """List for which signal each of some attempts waits; those that wait for none are left out."""
    rows = await tx.fetch(_SIGNALS["list_asked"], **attempt_columns(attempts))
    return {TaskId(row[0], row[1]): row[2] for row in rows}


async def park(tx: Transaction, attempts: Sequence[tuple[TaskId, int]]) -> None:
    """Put locked tasks off until their signals come or their time is over.

    Those whose signal has come meanwhile stay due.
    """
    await tx.fetch(_SIGNALS["park_waits"], **attempt_columns(attempts))
    await tx.fetch(_SIGNALS["put_off_parked"], **attempt_columns(attempts))
