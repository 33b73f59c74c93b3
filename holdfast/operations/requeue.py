"""Time passes: what waits becomes ready, and what was ready for too long is given up."""

from collections.abc import Sequence

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.store.database import Transaction
from holdfast.store.tables import tasks as task_table
from holdfast.store.tables.ready import list_due, list_overdue, promote_waiting, take_overdue
from holdfast.store.tables.tasks import lock_tasks

BATCH_MAX = 1000


async def requeue_due(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Make due retries and delayed tasks claimable; returns how many."""
    async with ledger.database.transaction() as tx:
        task_ids = await list_due(tx, batch_max)
    return await ledger.write(_promote, task_ids) if task_ids else 0


async def _promote(_: Ledger, tx: Transaction, task_ids: list[TaskId]) -> int:
    tasks = await lock_tasks(tx, task_ids)
    return await promote(tx, sorted(tasks))


async def promote(tx: Transaction, task_ids: Sequence[TaskId]) -> int:
    """Make locked tasks claimable whose time has come and whose last lease is gone; counts them."""
    if not task_ids:
        return 0
    ready = await promote_waiting(tx, task_ids)
    for task_id, queue in ready:
        tx.news.add_ready(queue, task_id)
    return len(ready)


async def give_up_scheduling(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """End tasks that waited for a worker longer than their scheduling timeout; returns how many."""
    async with ledger.database.transaction() as tx:
        task_ids = await list_overdue(tx, batch_max)
    return await ledger.write(_give_up, sorted(task_ids)) if task_ids else 0


async def _give_up(_: Ledger, tx: Transaction, task_ids: list[TaskId]) -> int:
    tasks = await lock_tasks(tx, await take_overdue(tx, task_ids))
    waiting = sorted(task.id for task in tasks.values() if task.state == TaskState.PENDING)
    if not waiting:
        return 0
    await task_table.give_up_scheduling(tx, waiting)
    moves = Moves()
    for task_id in waiting:
        moves.add(task_id.job_id, TaskState.PENDING, TaskState.UNSCHEDULABLE)
        moves.add_error(task_id.job_id, "no worker took it within its scheduling timeout")
    await apply_moves(tx, moves)
    return len(waiting)
