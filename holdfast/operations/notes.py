"""Notes beside the log: user events and progress, with a time to live and no place in the order."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.model.ids import TaskId
from holdfast.model.spec import Limits
from holdfast.operations.endings import id_columns
from holdfast.rules.submission import check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_EVENTS = load_statements("events")
TIME_TO_LIVE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Note:
    """What user code or a worker has to say: a kind, and a JSON text."""

    kind: str
    payload: str | None = None


async def add_notes(tx: Transaction, notes: Sequence[tuple[TaskId, int, Note]]) -> None:
    """Store notes of attempts."""
    if notes:
        await tx.fetch(
            _EVENTS["insert_notes"],
            **id_columns([task_id for task_id, _, _ in notes]),
            attempts=[attempt for _, attempt, _ in notes],
            kinds=[note.kind for _, _, note in notes],
            payloads=[note.payload for _, _, note in notes],
            time_to_live=TIME_TO_LIVE,
        )


def check_note(note: Note, limits: Limits) -> None:
    """Refuse a note that cannot be stored."""
    check_text("events.kind", note.kind, limits.text_length_max)
    if note.payload is not None:
        check_json("events.payload", note.payload, limits.input_bytes_max)
