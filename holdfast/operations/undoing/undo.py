"""What is to be undone, and what has been.

A job with a compensation, or of a graph, that ends unsuccessfully leaves a row in the outbox, and
so does the end of every compensation. Here such rows become rows of `undos`, one per job for ever,
and a row in the outbox for their graph, where `holdfast.operations.undoing.compensate` goes on.
A job without a graph is treated as a graph of its own.
"""

from collections.abc import Sequence
from functools import partial

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.ledger.parts import put_off_failures, write_apart
from holdfast.rules.undo import Compensation, is_compensated
from holdfast.store.database import Transaction
from holdfast.store.tables.order import undos as undo_table
from holdfast.store.tables.order.undos import (
    NewUndo,
    find_used_jobs,
    has_unsubmitted_undos,
    insert_undos,
    list_compensations,
    read_causes,
    read_compensates,
)
from holdfast.store.tables.upkeep.outbox import (
    delete_outbox,
    let_outbox_wait,
    list_outbox,
    put_off_outbox,
    take_outbox,
)
from holdfast.store.tables.work.jobs import record_job_events

CAUSES_MAX = 100


async def note_undos(ledger: Ledger) -> int:
    """Note what is to be undone after jobs that ended unsuccessfully; returns how many are done.

    Many at a time; an end of which somebody holds a row, or that is broken, is put off alone.
    """
    done, failures = await write_apart(ledger, _note, partial(_list_ends, ledger))
    await put_off_failures(ledger, failures, put_off_outbox)
    return done


async def _list_ends(ledger: Ledger) -> list[list[int]]:
    async with ledger.database.transaction() as tx:
        return [[row.id] for row in await list_outbox(tx, ["undo"], batch_max=CAUSES_MAX)]


async def _note(_: Ledger, tx: Transaction, row_ids: list[int] | None = None) -> int:
    """Note what follows from ends, all that are due or these.

    A job waits until none of its attempts can still run, and until every job it depends on has
    ended: one of those may yet succeed in vain.
    """
    rows = await take_outbox(tx, "undo", row_ids=row_ids, batch_max=CAUSES_MAX)
    if not rows:
        return 0
    causes = await read_causes(tx, {row.job_id for row in rows})
    released = sorted(cause.job_id for cause in causes.values() if cause.is_released)
    # Of each job to be undone, its graph and the first job whose end is a reason to do so.
    undos = {
        job_id: NewUndo(job_id, causes[job_id].graph_id or job_id, job_id)
        for job_id in released
        if causes[job_id].is_undone_itself
    }
    waiting = causes.keys() - set(released)
    for used in await find_used_jobs(tx, released):
        if used.is_live:
            waiting.add(used.cause_job_id)
        else:
            undo = NewUndo(used.job_id, used.graph_id, used.cause_job_id)
            undos.setdefault(used.job_id, undo)
    if undos:
        await wake(tx, sorted(await insert_undos(tx, sorted(undos.values()))))
    done = [row.id for row in rows if row.job_id not in waiting]
    await let_outbox_wait(tx, [row.id for row in rows if row.job_id in waiting])
    await delete_outbox(tx, done)
    return len(done)


async def wake(tx: Transaction, graph_ids: Sequence[int]) -> None:
    """Let somebody look what is to be undone next in these graphs; once too often does no harm."""
    await add_follow_ups(tx, [("undo_graph", graph_id) for graph_id in graph_ids])


async def end_undo(_: Ledger, tx: Transaction, job_id: int, *, next_index: int) -> int | None:
    """Note the end of a compensation, or of the replay of one, on the job that it undoes."""
    undone_job_id = await read_compensates(tx, job_id)
    if undone_job_id is None:  # retention was faster
        return None
    family = await list_compensations(tx, undone_job_id)
    first = next((row.job_id for row in family if row.replay_of is None), job_id)
    succeeded = is_compensated([Compensation(row.state, row.has_open_letters) for row in family])
    graph_id = await undo_table.end_undo(
        tx, undone_job_id, compensation_job_id=first, succeeded=succeeded
    )
    if graph_id is None:
        return None
    if succeeded:
        payload = msgspec.json.encode({"job_id": str(job_id)}).decode()
        await record_job_events(tx, "compensated", {undone_job_id: payload}, actor="server")
    if await has_unsubmitted_undos(tx, graph_id):
        await wake(tx, [graph_id])
    return None
