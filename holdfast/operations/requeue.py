"""Time passes: what waits becomes ready, and what was ready for too long is given up."""

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.operations.ending.endings import id_columns, lock_tasks, promote
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_READY = load_statements("ready")
_TASKS = load_statements("tasks")
BATCH_MAX = 1000


async def requeue_due(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Make due retries and delayed tasks claimable; returns how many."""
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(_READY["list_due"], batch_max=batch_max)
    task_ids = [TaskId(*row) for row in rows]
    return await ledger.write(_promote, task_ids) if task_ids else 0


async def _promote(_: Ledger, tx: Transaction, task_ids: list[TaskId]) -> int:
    tasks = await lock_tasks(tx, task_ids)
    return await promote(tx, sorted(tasks))


async def give_up_scheduling(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """End tasks that waited for a worker longer than their scheduling timeout; returns how many."""
    async with ledger.database.transaction() as tx:
        rows = await tx.fetch(_READY["list_overdue"], batch_max=batch_max)
    task_ids = sorted(TaskId(*row) for row in rows)
    return await ledger.write(_give_up, task_ids) if task_ids else 0


async def _give_up(_: Ledger, tx: Transaction, task_ids: list[TaskId]) -> int:
    taken = await tx.fetch(_READY["take_overdue"], **id_columns(task_ids))
    tasks = await lock_tasks(tx, [TaskId(*row) for row in taken])
    waiting = sorted(task.id for task in tasks.values() if task.state == TaskState.PENDING)
    if not waiting:
        return 0
    await tx.fetch(_TASKS["give_up_scheduling"], **id_columns(waiting))
    moves = Moves()
    for task_id in waiting:
        moves.add(task_id.job_id, TaskState.PENDING, TaskState.UNSCHEDULABLE)
        moves.add_error(task_id.job_id, "no worker took it within its scheduling timeout")
    await apply_moves(tx, moves)
    return len(waiting)
