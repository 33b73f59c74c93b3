"""Time is up: what nobody has started by then ends, and says so."""

from collections.abc import Sequence
from functools import partial

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.ledger.parts import write_chosen
from holdfast.model.submitting.spec import JobSpec
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.rules.submitting.expiry import say_expired
from holdfast.store.database import Transaction
from holdfast.store.tables.submitting.expiries import (
    advance_expiries,
    delete_expiries,
    list_unstarted,
)
from holdfast.store.tables.work.dead_letters import NewDeadLetter, dead_letter_tasks
from holdfast.store.tables.work.jobs import read_job_flags
from holdfast.store.tables.work.ready import Stretch, leave_line
from holdfast.store.tables.work.tasks import kill_pending_tasks, lock_tasks

BATCH_MAX = 1000


async def expire(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """End tasks that nobody has ever claimed and whose job has expired; returns how many.

    They are killed, or dead-lettered where that is what exhausted tasks of the job become. A claim
    comes before, and its task goes on, or after, and does not find it.
    """
    choose = partial(list_unstarted, batch_max=batch_max)
    ended = await write_chosen(ledger, choose, _expire)
    async with ledger.database.transaction() as tx:
        await delete_expiries(tx, batch_max=batch_max)
    return ended


async def _expire(ledger: Ledger, tx: Transaction, task_ids: list[TaskId]) -> int:
    await leave_line(tx, [Stretch.of(task_id) for task_id in task_ids])
    tasks = await lock_tasks(tx, task_ids)
    flags = await read_job_flags(tx, sorted({task_id.job_id for task_id in task_ids}))
    unstarted: dict[int, list[TaskId]] = {}
    for task in tasks.values():
        job = flags[task.job_id]
        # A cancel, or the end of the job, has them stopped for its own reason.
        is_live = not job.finished and job.cancel_mode is None
        if is_live and task.state == TaskState.PENDING and task.attempt == 0:
            unstarted.setdefault(task.job_id, []).append(task.id)
    specs = await ledger.specs.load(tx, unstarted)
    moves = Moves()
    for job_id, found in sorted(unstarted.items()):
        await _end(tx, specs[job_id].spec, found, moves=moves)
    await advance_expiries(tx, {task_id.job_id: task_id.task_index + 1 for task_id in task_ids})
    await apply_moves(tx, moves)
    return sum(map(len, unstarted.values()))


async def _end(tx: Transaction, spec: JobSpec, task_ids: Sequence[TaskId], *, moves: Moves) -> None:
    cause = say_expired(spec)
    if spec.on_exhausted == "dead_letter":
        state = TaskState.DEAD_LETTERED
        letters = [NewDeadLetter(task_id, "timeout", "server", cause) for task_id in task_ids]
        await dead_letter_tasks(tx, letters)
    else:
        state = TaskState.KILLED
        await kill_pending_tasks(tx, task_ids, actor="server", cause=cause)
    for task_id in task_ids:
        moves.add(task_id.job_id, TaskState.PENDING, state)
        moves.add_error(task_id.job_id, cause)
