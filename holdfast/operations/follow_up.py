"""What follows downward from a change: sweeps, cascades and the feeding of large jobs.

Each step is a transaction of its own that takes one outbox row; a row lives until its work is done,
so that a crash in between loses nothing.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from holdfast.model.ids import TaskId
from holdfast.model.outcomes import CancelMode
from holdfast.model.states import JobState
from holdfast.operations.cancel import flag_job, stop_tasks
from holdfast.operations.compensate import compensate
from holdfast.operations.dependencies import feed_tasks, release_dependents
from holdfast.operations.ledger import Ledger
from holdfast.operations.settle import Moves, settle
from holdfast.operations.undo import end_undo, note_undos
from holdfast.store.database import LockTimeout, Transaction
from holdfast.store.rows import LockedTask
from holdfast.store.statements import load_statements

_JOBS = load_statements("jobs")
_TASKS = load_statements("tasks")

SWEEP_TASKS_MAX = 1000
FEED_TASKS_MAX = 5000
CHILDREN_MAX = 100
BLOCKED_MAX = 20


async def follow_up(ledger: Ledger, rows_max: int = 100) -> int:
    """Take one step of each piece of work that waits; returns how many steps were taken.

    What somebody else holds the locks of must not hold up the rest. Raises LockTimeout if nothing
    at all could be done for that reason.
    """
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(_JOBS["list_outbox"], batch_max=rows_max)
    steps, blocked = 0, None
    for step in _list_steps(ledger, rows):
        try:
            steps += await step()
        except LockTimeout as error:
            blocked = error
    if blocked is not None and not steps:
        raise blocked
    return steps


def _list_steps(ledger: Ledger, rows: Sequence[Any]) -> Iterator[Callable[[], Awaitable[int]]]:
    """Say what is to be done about rows of the outbox: most have a transaction of their own."""
    yield partial(ledger.write, release_dependents)
    if any(kind == "undo" for _, kind, _ in rows):
        yield partial(ledger.write, note_undos)
    for row_id, kind, job_id in rows:
        if kind == "undo_graph":
            yield partial(compensate, ledger, row_id, job_id)
        elif kind != "undo":
            yield partial(ledger.write, _step, row_id=row_id)


async def follow_up_all(ledger: Ledger, steps_max: int = 1_000_000) -> int:
    """Take steps until nothing waits; for tests, demos and small installations."""
    steps = 0
    blocked = 0
    while steps < steps_max:
        try:
            taken = await follow_up(ledger)
        except LockTimeout:
            blocked += 1
            if blocked == BLOCKED_MAX:
                raise
            continue
        if not taken:
            break
        steps += taken
    return steps


async def _step(ledger: Ledger, tx: Transaction, *, row_id: int) -> int:
    row = await tx.fetch_one(_JOBS["lock_outbox"], id=row_id)
    if row is None:
        return 0
    _, kind, job_id, next_index = row
    step = _STEPS[kind]
    following = await step(ledger, tx, job_id, next_index=next_index)
    if following is None:
        await tx.fetch(_JOBS["delete_outbox"], id=row_id)
    else:
        await tx.fetch(_JOBS["advance_outbox"], id=row_id, next_index=following)
    return 1


async def _sweep(ledger: Ledger, tx: Transaction, job_id: int, *, next_index: int) -> int | None:
    """Stop the next tasks of a job that was cancelled or has ended."""
    rows = await tx.fetch(
        _TASKS["lock_next_tasks"], job_id=job_id, next_index=next_index, batch_max=SWEEP_TASKS_MAX
    )
    flags = await tx.fetch_one(_JOBS["read_job_flags"], job_ids=[job_id])
    if not rows or flags is None:
        return None
    tasks = [LockedTask(*row) for row in rows]
    soft = flags["cancel_mode"] == "soft" and not flags["finished"]
    ended = f"the job is {JobState(flags['state']).name}"
    moves = Moves()
    await stop_tasks(
        ledger,
        tx,
        tasks,
        moves=moves,
        mode="soft" if soft else "hard",
        actor="server",
        reason=flags["cancel_reason"] or ended,
    )
    await settle(tx, moves)
    return tasks[-1].task_index + 1 if len(rows) == SWEEP_TASKS_MAX else None


async def _feed(_: Ledger, tx: Transaction, job_id: int, *, next_index: int) -> int | None:
    """Line up the next tasks of a job too large to be lined up at once."""
    rows = await tx.fetch(
        _TASKS["lock_next_tasks"], job_id=job_id, next_index=next_index, batch_max=FEED_TASKS_MAX
    )
    flags = await tx.fetch_one(_JOBS["read_job_flags"], job_ids=[job_id])
    if not rows or flags is None or flags["finished"] or flags["cancel_mode"]:
        return None
    await feed_tasks(tx, [TaskId(row[0], row[1]) for row in rows])
    following: int = rows[-1][1] + 1
    return following if len(rows) == FEED_TASKS_MAX else None


async def _end_children(
    ledger: Ledger, tx: Transaction, job_id: int, *, next_index: int
) -> int | None:
    """Cancel the live children of a job that ended in any state but SUCCEEDED."""
    flags = await tx.fetch_one(_JOBS["read_job_flags"], job_ids=[job_id])
    if flags is None:
        return None
    mode: CancelMode = "soft" if flags["cancel_mode"] == "soft" else "hard"
    children = await tx.fetch(
        _JOBS["list_live_children"], job_id=job_id, mode=mode, batch_max=CHILDREN_MAX
    )
    for child in children:
        reason = f"parent job {job_id} ended"
        await flag_job(ledger, tx, child[0], mode=mode, actor="server", reason=reason)
    full = len(children) == CHILDREN_MAX
    return next_index + 1 if full else None


_STEPS: dict[str, Callable[..., Awaitable[int | None]]] = {
    "sweep": _sweep,
    "feed": _feed,
    "job_ended": _end_children,
    "undone": end_undo,
}
