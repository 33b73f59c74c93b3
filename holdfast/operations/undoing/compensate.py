"""Submit compensations: of a job at once, of a graph one after another.

The next one is chosen, its records are read, and then, in one transaction that others of the same
graph wait for, it is chosen again, stored and noted: there is never a second one, whoever dies
when. One that is too large for a transaction is submitted in chunks, under a key: whoever comes
after a crash finds the same job under it.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import KeyReused, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import INDEX_MAX
from holdfast.model.spec import Submission
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.store import CHUNK_TASKS_MAX, Submitted, store_jobs
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submission import complete_submission
from holdfast.rules.undo import (
    OpenUndo,
    UndoneTask,
    can_be_undone,
    compensation_of,
    fit_in,
    next_undo,
    record_bytes_max,
    record_of_replicas,
    record_of_task,
)
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.statements import load_statements

log = logging.getLogger("holdfast.compensate")
_UNDO = load_statements("undo")
_OUTBOX = load_statements("outbox")

CHOICE_MAX = 10
PAGE_TASKS_MAX = 50  # of which each may have returned a megabyte
REPLICAS_TOLD_MAX = 1000
OUTPUTS_MAX = 100_000  # that are told, of one compensation
OUTPUTS_BYTES_MAX = 16 << 20
RECORDS_BYTES_MAX = 24 << 20  # of one compensation, in memory, beside the inputs
REFUSED_PUT_OFF = timedelta(minutes=1)
TASKS_PER_SECOND_MIN = 2000  # that a large compensation is stored with, or another server tries


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compensation that can be stored, or that has been, in chunks."""

    undone_job_id: int
    arrival: Admitted | None
    job_id: int


async def compensate(ledger: Ledger, row_id: int, graph_id: int) -> int:
    """Submit what is next to be undone in a graph, if its turn has come; 0 if it has not."""
    async with ledger.database.transaction() as tx:
        undo = await _choose(tx, graph_id)
    try:
        is_due = undo is not None and can_be_undone(undo)
        prepared = await _prepare(ledger, graph_id, undo.job_id) if undo and is_due else None
        return await ledger.write(_advance, row_id, graph_id=graph_id, prepared=prepared)
    except Refused as refused:
        # Somebody has to widen what it runs into; until then it is tried again now and then.
        log.error("what is next to be undone in %s is refused: %s", graph_id, refused)
        await ledger.write(_put_off, graph_id, delay=REFUSED_PUT_OFF)
        return 0


async def _choose(tx: Transaction, graph_id: int) -> OpenUndo | None:
    rows = await tx.fetch(_UNDO["read_open_undos"], graph_id=graph_id, batch_max=CHOICE_MAX)
    return next_undo([OpenUndo(*row) for row in rows])


async def _advance(
    _: Ledger, tx: Transaction, row_id: int, *, graph_id: int, prepared: Prepared | None
) -> int:
    """Store a compensation if it is still the next one, and be done until it has ended."""
    ids = [row[0] for row in await tx.fetch(_UNDO["lock_undo_graph"], graph_id=graph_id)]
    if row_id not in ids:
        return 0
    undo = await _choose(tx, graph_id)
    if undo is None:  # nothing is left, or the end of one under way comes first
        await tx.fetch(_OUTBOX["delete_outbox"], ids=ids)
        return 1
    if not can_be_undone(undo):
        await tx.fetch(_OUTBOX["let_outbox_wait"], ids=ids)
        return 0
    if prepared is None or prepared.undone_job_id != undo.job_id:
        return 1  # something has changed meanwhile: at once again
    job_id = prepared.job_id
    if prepared.arrival is not None:
        [answer] = await store_jobs(tx, [prepared.arrival])
        if not isinstance(answer, Submitted):
            raise answer
        job_id = answer.job_id
    await tx.fetch(_UNDO["note_compensation"], job_id=undo.job_id, compensation_job_id=job_id)
    await tx.fetch(_OUTBOX["delete_outbox"], ids=ids)
    return 1


async def _put_off(_: Ledger, tx: Transaction, graph_id: int, *, delay: timedelta) -> None:
    rows = await tx.fetch(_UNDO["lock_undo_graph"], graph_id=graph_id)
    await tx.fetch(_OUTBOX["put_off_outbox"], ids=[row[0] for row in rows], delay=delay)


async def _prepare(ledger: Ledger, graph_id: int, job_id: int) -> Prepared:
    async with ledger.database.transaction() as tx:
        stored = (await ledger.specs.load(tx, [job_id]))[job_id]
    records = await _read_records(ledger, job_id, stored)
    spec = compensation_of(
        stored.spec,
        job_id=job_id,
        correlation_id=stored.correlation_id,
        trace_id=stored.trace_id,
        text_length_max=ledger.limits.text_length_max,
    )
    submission = Submission(
        spec, records, compensates_job_id=job_id, trace_parent=stored.trace_parent
    )
    count = len(records)
    if count > CHUNK_TASKS_MAX:
        # Whoever starts over under the same key ends this try: nobody should without need.
        patience = timedelta(seconds=30 + count / TASKS_PER_SECOND_MIN)
        await ledger.write(_put_off, graph_id, delay=patience)
        large_job_id = await _submit_large(ledger, submission, job_id)
        return Prepared(job_id, None, large_job_id)
    [arrival] = await admit(ledger, [complete_submission(submission, ledger.limits)])
    return Prepared(job_id, arrival, arrival.job_id)


async def _submit_large(ledger: Ledger, submission: Submission, undone_job_id: int) -> int:
    try:
        return (await submit_one(ledger, submission)).job_id
    except KeyReused:
        # Submitted before, by a program that described it in other words.
        async with ledger.database.transaction() as tx:
            row = await tx.fetch_one(_UNDO["find_compensation"], job_id=undone_job_id)
        if row is None:  # not whole; retention takes it away
            raise
        found: int = row[0]
        return found


async def _read_records(ledger: Ledger, job_id: int, stored: StoredSpec) -> tuple[str, ...]:
    """Write down what each task of the compensation has to know.

    Not the call itself, which all of them share and which may be large: workers fetch it.
    """
    bytes_max = record_bytes_max(ledger.limits)
    is_pickled = stored.spec.entrypoint.pickle is not None
    outputs = await _read_outputs(ledger, job_id) if stored.spec.outputs else _NONE
    tasks = _fit_all(_walk_tasks(ledger, job_id, outputs))
    if stored.spec.replicas is None:
        return tuple(
            [
                record_of_task(job_id, task, is_pickled=is_pickled, bytes_max=bytes_max)
                async for task in tasks
            ]
        )
    async with ledger.database.transaction() as tx:
        state, error = (await tx.fetch(_UNDO["read_undone_job"], job_id=job_id))[0]
    record = record_of_replicas(
        job_id,
        state,
        error,
        tasks=await _take(tasks, REPLICAS_TOLD_MAX),
        is_list=stored.num_tasks > 1,
        is_pickled=is_pickled,
        bytes_max=bytes_max,
    )
    return (record,)


async def _fit_all(tasks: AsyncIterator[UndoneTask]) -> AsyncIterator[UndoneTask]:
    """Keep all that is told of the tasks of a job within one bound, beside their inputs."""
    room = RECORDS_BYTES_MAX
    async for task in tasks:
        told, room = fit_in(task, room)
        yield told


async def _take(tasks: AsyncIterator[UndoneTask], count_max: int) -> list[UndoneTask]:
    """Read the first tasks; the last of them says if there are more."""
    taken: list[UndoneTask] = []
    async for task in tasks:
        if len(taken) == count_max:
            taken[-1] = taken[-1]._replace(is_cut=True)
            break
        taken.append(task)
    return taken


class Outputs(NamedTuple):
    """What the tasks of a job have committed, up to a task from which on there may be more."""

    by_task: dict[int, list[str]]
    cut_from: int


_NONE = Outputs({}, INDEX_MAX + 1)


async def _read_outputs(ledger: Ledger, job_id: int) -> Outputs:
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(
            _UNDO["read_undone_outputs"],
            job_id=job_id,
            batch_max=OUTPUTS_MAX,
            bytes_max=OUTPUTS_BYTES_MAX,
        )
    by_task: dict[int, list[str]] = {}
    for task_index, text, _ in rows:
        by_task.setdefault(task_index, []).append(text)
    is_cut = bool(rows) and (len(rows) < rows[-1][2] or len(rows) == OUTPUTS_MAX)
    return Outputs(by_task, rows[-1][0] if is_cut else _NONE.cut_from)


async def _walk_tasks(ledger: Ledger, job_id: int, outputs: Outputs) -> AsyncIterator[UndoneTask]:
    """Read the tasks that had started, a page at a time."""
    after = -1
    while True:
        async with ledger.database.transaction() as tx:
            rows = await tx.fetch(
                _UNDO["read_undone_tasks"], job_id=job_id, after=after, batch_max=PAGE_TASKS_MAX
            )
        for row in rows:
            committed = tuple(outputs.by_task.get(row[0], ()))
            yield UndoneTask(*row)._replace(outputs=committed, is_cut=row[0] >= outputs.cut_from)
        if len(rows) < PAGE_TASKS_MAX:
            return
        after = rows[-1][0]
