"""Time passes: what waits becomes ready, and what was ready for too long is given up."""

from collections.abc import Sequence
from functools import partial

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.ledger.parts import write_chosen
from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.store.database import Transaction
from holdfast.store.tables import tasks as task_table
from holdfast.store.tables.ready import (
    feed_ready,
    list_overdue,
    lock_due,
    promote_waiting,
    take_overdue,
)
from holdfast.store.tables.tasks import lock_tasks

BATCH_MAX = 1000


async def requeue_due(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Make due retries and delayed tasks claimable; returns how many."""
    return await ledger.write(_requeue, batch_max)


async def _requeue(_: Ledger, tx: Transaction, batch_max: int) -> int:
    return await promote(tx, await lock_due(tx, batch_max))


async def promote(tx: Transaction, task_ids: Sequence[TaskId]) -> int:
    """Make locked tasks claimable whose time has come and whose last lease is gone; counts them."""
    if not task_ids:
        return 0
    ready = await promote_waiting(tx, task_ids)
    for task_id, queue in ready:
        tx.news.add_ready(queue, task_id)
    return len(ready)


async def feed_tasks(tx: Transaction, task_ids: Sequence[TaskId]) -> None:
    """Put tasks in line that have not been there before, and tell who waits for them."""
    if task_ids:
        for task_id, queue in await feed_ready(tx, task_ids):
            tx.news.add_ready(queue, task_id)


async def give_up_scheduling(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """End tasks that waited for a worker longer than their scheduling timeout; returns how many."""
    return await write_chosen(ledger, partial(list_overdue, batch_max=batch_max), _give_up)


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
