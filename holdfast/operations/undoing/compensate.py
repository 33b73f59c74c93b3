"""Submit compensations: of a job at once, of a graph one after another.

The next one is chosen, its records are read, and then, in one transaction that others of the same
graph wait for, it is chosen again, stored and noted: there is never a second one, whoever dies
when. One that is too large for a transaction is stored hidden before, under a key, and shown in
that transaction: whoever comes after a crash starts it over.
"""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import INDEX_MAX
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.chunk import is_large, store_hidden, store_or_show
from holdfast.rules.submitting.submission import complete_submission
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
from holdfast.store.tables.order import undos
from holdfast.store.tables.upkeep import outbox

log = logging.getLogger("holdfast.compensate")

CHOICE_MAX = 10
PAGE_TASKS_MAX = 50  # of which each may have returned a megabyte
REPLICAS_LISTED_MAX = 1000
OUTPUTS_MAX = 100_000  # that are listed in the records of one compensation
OUTPUTS_BYTES_MAX = 16 << 20
RECORDS_BYTES_MAX = 24 << 20  # of one compensation, beside the inputs
REFUSED_PUT_OFF = timedelta(minutes=1)
TASKS_PER_SECOND_MIN = 2000  # that a large compensation is stored with, or another server tries


class NextCompensation(NamedTuple):
    """A compensation that can be stored, or shown if it is stored and hidden."""

    undone_job_id: int
    job: Admitted
    is_hidden: bool


async def compensate(ledger: Ledger, row_id: int, graph_id: int) -> int:
    """Submit what is next to be undone in a graph, if its turn has come; 0 if it has not."""
    async with ledger.database.transaction() as tx:
        undo = await _choose(tx, graph_id)
    try:
        is_due = undo is not None and can_be_undone(undo)
        following = await _prepare(ledger, graph_id, undo.job_id) if undo and is_due else None
        return await ledger.write(_advance, row_id, graph_id=graph_id, following=following)
    except Refused as refused:
        # Somebody has to widen what it runs into; until then it is tried again now and then.
        log.error("what is next to be undone in %s is refused: %s", graph_id, refused)
        await ledger.write(_put_off, graph_id, delay=REFUSED_PUT_OFF)
        return 0


async def _choose(tx: Transaction, graph_id: int) -> OpenUndo | None:
    return next_undo(await undos.read_open_undos(tx, graph_id, batch_max=CHOICE_MAX))


async def _advance(
    _: Ledger, tx: Transaction, row_id: int, *, graph_id: int, following: NextCompensation | None
) -> int:
    """Store a compensation if it is still the next one, and be done until it has ended."""
    ids = await outbox.lock_undo_graph(tx, graph_id)
    if row_id not in ids:
        return 0
    undo = await _choose(tx, graph_id)
    if undo is None:  # nothing is left, or the end of one under way comes first
        await outbox.delete_outbox(tx, ids)
        return 1
    if not can_be_undone(undo):
        await outbox.let_outbox_wait(tx, ids)
        return 0
    if following is None or following.undone_job_id != undo.job_id:
        return 1  # something has changed meanwhile: at once again
    job = following.job
    [made] = await store_or_show(tx, [job], {job.job_id: job} if following.is_hidden else {})
    await undos.note_compensation(tx, undo.job_id, compensation_job_id=made.job_id)
    await outbox.delete_outbox(tx, ids)
    return 1


async def _put_off(_: Ledger, tx: Transaction, graph_id: int, *, delay: timedelta) -> None:
    await outbox.put_off_outbox(tx, await outbox.lock_undo_graph(tx, graph_id), delay)


async def _prepare(ledger: Ledger, graph_id: int, job_id: int) -> NextCompensation:
    async with ledger.database.transaction() as tx:
        stored = (await ledger.specs.load(tx, [job_id]))[job_id]
        size = await undos.measure_undone_tasks(tx, job_id)
    spec = compensation_of(
        stored.spec,
        job_id=job_id,
        correlation_id=stored.correlation_id,
        trace_id=stored.trace_id,
        text_length_max=ledger.limits.text_length_max,
    )
    records = _walk_records(ledger, job_id, stored)
    if stored.spec.replicas is None and is_large(size.num_tasks, size.bytes):
        inputs: tuple[str, ...] = ()
        num_inputs = size.num_tasks
        # Whoever starts over under the same key ends this try: nobody should without need.
        patience = timedelta(seconds=30 + num_inputs / TASKS_PER_SECOND_MIN)
        await ledger.write(_put_off, graph_id, delay=patience)
    else:
        inputs, num_inputs = tuple([record async for record in records]), None
    submission = Submission(
        spec,
        inputs,
        compensates_job_id=job_id,
        trace_parent=stored.trace_parent,
        num_inputs=num_inputs,
    )
    [job] = await admit(ledger, [complete_submission(submission, ledger.limits)])
    if num_inputs is None:
        return NextCompensation(job_id, job, is_hidden=False)
    hidden = await store_hidden(ledger, job, records)
    if isinstance(hidden, Refused):
        raise hidden
    assert isinstance(hidden, Admitted), "a compensation that is shown has been noted"
    return NextCompensation(job_id, hidden, is_hidden=True)


async def _walk_records(ledger: Ledger, job_id: int, stored: StoredSpec) -> AsyncIterator[str]:
    """Write down what each task of the compensation has to know, a few in memory at a time.

    Not the call itself, which all of them share and which may be large: workers fetch it.
    """
    bytes_max = record_bytes_max(ledger.limits)
    is_pickled = stored.spec.entrypoint.pickle is not None
    outputs = await _read_outputs(ledger, job_id) if stored.spec.outputs else _NO_OUTPUTS
    tasks = _fit_all(_walk_tasks(ledger, job_id, outputs))
    if stored.spec.replicas is None:
        async for task in tasks:
            yield record_of_task(job_id, task, is_pickled=is_pickled, bytes_max=bytes_max)
        return
    async with ledger.database.transaction() as tx:
        undone = await undos.read_undone_job(tx, job_id)
    yield record_of_replicas(
        job_id,
        undone.state,
        undone.error,
        tasks=await _take(tasks, REPLICAS_LISTED_MAX),
        is_list=stored.num_tasks > 1,
        is_pickled=is_pickled,
        bytes_max=bytes_max,
    )


async def _fit_all(tasks: AsyncIterator[UndoneTask]) -> AsyncIterator[UndoneTask]:
    """Keep the records of all tasks of a job within one bound, beside their inputs."""
    room = RECORDS_BYTES_MAX
    async for task in tasks:
        fitting, room = fit_in(task, room)
        yield fitting


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


_NO_OUTPUTS = Outputs({}, INDEX_MAX + 1)


async def _read_outputs(ledger: Ledger, job_id: int) -> Outputs:
    async with ledger.database.transaction() as tx:
        rows = await undos.read_undone_outputs(
            tx, job_id, batch_max=OUTPUTS_MAX, bytes_max=OUTPUTS_BYTES_MAX
        )
    by_task: dict[int, list[str]] = {}
    for row in rows:
        by_task.setdefault(row.task_index, []).append(row.text)
    is_cut = bool(rows) and (len(rows) < rows[-1].available or len(rows) == OUTPUTS_MAX)
    return Outputs(by_task, rows[-1].task_index if is_cut else _NO_OUTPUTS.cut_from)


async def _walk_tasks(ledger: Ledger, job_id: int, outputs: Outputs) -> AsyncIterator[UndoneTask]:
    """Read the tasks that had started, a page at a time."""
    after = -1
    while True:
        async with ledger.database.transaction() as tx:
            page = await undos.read_undone_tasks(tx, job_id, after=after, batch_max=PAGE_TASKS_MAX)
        for row in page:
            committed = tuple(outputs.by_task.get(row.task_index, ()))
            is_cut = row.task_index >= outputs.cut_from
            yield UndoneTask(*row)._replace(outputs=committed, is_cut=is_cut)
        if len(page) < PAGE_TASKS_MAX:
            return
        after = page[-1].task_index
