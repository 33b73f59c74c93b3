"""What is to be undone, and what has been.

A job with a compensation, or of a graph, that ends unsuccessfully leaves a row in the outbox, and
so does the end of every compensation. Here such rows become rows of `undos`, one per job for ever,
and a row in the outbox for their graph, where `holdfast.operations.undoing.compensate` goes on.
A job without a graph is treated as a graph of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import add_follow_ups
from holdfast.rules.undo import Compensation, is_compensated
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables import undos
from holdfast.store.tables.jobs import record_job_event
from holdfast.store.tables.undos import (
    has_unsubmitted_undos,
    list_compensations,
    read_compensates,
)

_OUTBOX = load_statements("outbox")
_UNDO = load_statements("undo")
CAUSES_MAX = 100


class Cause(NamedTuple):
    """A job that ended unsuccessfully."""

    job_id: int
    graph_id: int | None
    is_released: bool
    is_undone_itself: bool


async def note_undos(_: Ledger, tx: Transaction) -> int:
    """Note what is to be undone after jobs that ended unsuccessfully; returns how many are done.

    A job waits until none of its attempts can still run, and until every job it depends on has
    ended: one of those may yet succeed in vain.
    """
    rows = await tx.fetch(_UNDO["take_undos"], batch_max=CAUSES_MAX)
    if not rows:
        return 0
    found = await tx.fetch(_UNDO["read_causes"], job_ids=sorted({row[1] for row in rows}))
    causes = {row[0]: Cause(*row) for row in found}
    released = sorted(cause.job_id for cause in causes.values() if cause.is_released)
    # Of each job to be undone, its graph and the first job whose end is a reason to do so.
    undos = {
        job_id: (causes[job_id].graph_id or job_id, job_id)
        for job_id in released
        if causes[job_id].is_undone_itself
    }
    waiting = causes.keys() - set(released)
    for cause_job_id, job_id, graph_id, is_live in await tx.fetch(
        _UNDO["find_used_jobs"], job_ids=released
    ):
        if is_live:
            waiting.add(cause_job_id)
        else:
            undos.setdefault(job_id, (graph_id, cause_job_id))
    await _insert(tx, undos)
    late = [row[0] for row in rows if row[1] in waiting]
    done = [row[0] for row in rows if row[1] not in waiting]
    await tx.fetch(_OUTBOX["let_outbox_wait"], ids=late)
    await tx.fetch(_OUTBOX["delete_outbox"], ids=done)
    return len(done)


async def _insert(tx: Transaction, undos: dict[int, tuple[int, int]]) -> None:
    if not undos:
        return
    job_ids = sorted(undos)
    new = await tx.fetch(
        _UNDO["insert_undos"],
        job_ids=job_ids,
        graph_ids=[undos[job_id][0] for job_id in job_ids],
        cause_job_ids=[undos[job_id][1] for job_id in job_ids],
    )
    await wake(tx, sorted({row[0] for row in new}))


async def wake(tx: Transaction, graph_ids: Sequence[int]) -> None:
    """Let somebody look what is to be undone next in these graphs; once too often does no harm."""
    await add_follow_ups(tx, [("undo_graph", graph_id) for graph_id in graph_ids])


async def end_undo(_: Ledger, tx: Transaction, job_id: int, *, next_index: int) -> int | None:
    """Note the end of a compensation, or of the replay of one, on the job that it undoes."""
    undone_job_id = await read_compensates(tx, job_id)
    if undone_job_id is None:  # retention was faster
        return None
    family = await list_compensations(tx, undone_job_id)
    first = next((item.job_id for item in family if item.replay_of is None), job_id)
    succeeded = is_compensated([Compensation(i.state, i.has_open_letters) for i in family])
    graph_id = await undos.end_undo(
        tx, undone_job_id, compensation_job_id=first, succeeded=succeeded
    )
    if graph_id is None:
        return None
    if succeeded:
        payload = msgspec.json.encode({"job_id": str(job_id)}).decode()
        await record_job_event(tx, undone_job_id, "compensated", actor="server", payload=payload)
    if await has_unsubmitted_undos(tx, graph_id):
        await wake(tx, [graph_id])
    return None
