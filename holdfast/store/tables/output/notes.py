"""The table of notes: user events and progress, with a time to live."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import attempt_columns

_EVENTS = load_statements("output/events")


class NewNote(NamedTuple):
    """A note of an attempt: a kind, and a JSON text."""

    task_id: TaskId
    attempt: int
    kind: str
    payload: str | None


async def insert_notes(
    tx: Transaction, notes: Sequence[NewNote], *, time_to_live: timedelta
) -> None:
    """Store notes."""
    await tx.fetch(
        _EVENTS["insert_notes"],
        **attempt_columns([(note.task_id, note.attempt) for note in notes]),
        kinds=[note.kind for note in notes],
        payloads=[note.payload for note in notes],
        time_to_live=time_to_live,
    )


async def prune_notes(tx: Transaction, batch_max: int) -> int:
    """Forget notes that have outlived their time; returns how many."""
    return len(await tx.fetch(_EVENTS["prune_notes"], batch_max=batch_max))
