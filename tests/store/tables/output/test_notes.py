"""The table of notes through its functions."""

from datetime import timedelta

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.tables.output.notes import NewNote, insert_notes, prune_notes

WEEK = timedelta(days=7)


async def test_a_note_stays_for_its_time(tx: Transaction) -> None:
    notes = [
        NewNote(TaskId(1, 0), 0, "progress", '{"fraction": 1}'),
        NewNote(TaskId(1, 1), 2, "k", None),
    ]
    await insert_notes(tx, notes, time_to_live=WEEK)
    assert await prune_notes(tx, 9) == 0
    await insert_notes(tx, notes, time_to_live=-WEEK)
    assert await prune_notes(tx, 9) == 2
