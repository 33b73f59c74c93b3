"""The table of dead letters: put there, replayed, discarded."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import ReasonCode
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import id_columns

_TASKS = load_statements("work/tasks")
_DEAD = load_statements("work/dead_letters")


class NewDeadLetter(NamedTuple):
    """A task that goes to the dead letters, why, and whose doing it is."""

    task_id: TaskId
    reason_code: ReasonCode
    actor: str
    cause: str


async def dead_letter_tasks(tx: Transaction, letters: Sequence[NewDeadLetter]) -> None:
    """Move locked tasks to the dead letters."""
    await tx.fetch(
        _TASKS["dead_letter_tasks"],
        **id_columns([letter.task_id for letter in letters]),
        reason_codes=[letter.reason_code for letter in letters],
        actors=[letter.actor for letter in letters],
        causes=[letter.cause for letter in letters],
    )


class LetterState(NamedTuple):
    """A dead letter, and what has become of it so far."""

    job_id: int
    task_index: int
    replayed_as: int | None
    discarded_at: datetime | None


async def lock_dead_letters(
    tx: Transaction, task_ids: Sequence[TaskId]
) -> dict[TaskId, LetterState]:
    """Lock dead letters in the order of their ids; those that do not exist are left out."""
    rows = await tx.fetch(_DEAD["lock_dead_letters"], **id_columns(sorted(task_ids)))
    return {TaskId(row[0], row[1]): LetterState._make(row) for row in rows}


async def read_letters(tx: Transaction, task_ids: Sequence[TaskId]) -> dict[TaskId, LetterState]:
    """Read how dead letters stand, whoever holds them; those that do not exist are left out."""
    rows = await tx.fetch(_DEAD["read_letters"], **id_columns(task_ids))
    return {TaskId(row[0], row[1]): LetterState._make(row) for row in rows}


async def measure_letter_inputs(tx: Transaction, task_ids: Sequence[TaskId]) -> int:
    """Count the bytes of the inputs of dead letters."""
    row = await tx.fetch_one(_DEAD["measure_letter_inputs"], **id_columns(task_ids))
    assert row is not None, "a sum has a row"
    size: int = row[0]
    return size


async def read_letter_inputs(tx: Transaction, task_ids: Sequence[TaskId]) -> dict[TaskId, str]:
    """Read the inputs of dead letters, JSON texts; letters that do not exist are left out."""
    rows = await tx.fetch(_DEAD["read_letter_inputs"], **id_columns(task_ids))
    return {TaskId(job_id, task_index): text for job_id, task_index, text in rows}


async def mark_replayed(
    tx: Transaction, replayed_as: Mapping[TaskId, int], *, input_edited: bool = False
) -> None:
    """Note of each locked dead letter which job runs it again, and if it is with another input."""
    await tx.fetch(
        _DEAD["mark_replayed"],
        **id_columns(list(replayed_as)),
        replayed_as=list(replayed_as.values()),
        input_edited=input_edited,
    )


async def reopen_letters(tx: Transaction, replays: Sequence[int]) -> None:
    """Open the dead letters again of replays that will never start."""
    await tx.fetch(_DEAD["reopen_letters"], job_ids=replays)


async def mark_discarded(tx: Transaction, task_ids: Sequence[TaskId], *, actor: str) -> None:
    """Note that locked dead letters need nothing more."""
    await tx.fetch(_DEAD["mark_discarded"], **id_columns(task_ids), actor=actor)
