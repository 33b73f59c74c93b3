"""Cancel tasks and jobs, softly or at once.

A job is only flagged here, in one short transaction; `sweep` then goes through its tasks, a
thousand at a time, in transactions of its own.
"""

from datetime import timedelta

from holdfast.errors import Invalid, NotFound
from holdfast.ledger.keys import request_key, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, add_follow_ups, apply_moves
from holdfast.model.work.attempts import LockedTask
from holdfast.model.work.ids import TaskId, check_job_id, check_task_id
from holdfast.model.work.outcomes import CancelMode, Killed
from holdfast.model.work.states import OPEN_STATES, TaskState
from holdfast.operations.ending.attempts import end_locked
from holdfast.rules.ending import AttemptEnd
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.work.jobs import flag_cancel, lock_job, read_job_flags
from holdfast.store.tables.work.leases import request_soft_cancel
from holdfast.store.tables.work.ready import Stretch, leave_line
from holdfast.store.tables.work.tasks import kill_pending_tasks, lock_tasks


async def cancel_job(
    ledger: Ledger,
    job_id: int,
    mode: CancelMode,
    *,
    actor: str,
    reason: str = "cancelled",
    idempotency_key: str | None = None,
) -> bool:
    """Flag a job for cancel; False if it had ended, or was cancelled like this before."""
    check_job_id(job_id)
    _check_words(mode, actor, reason)
    keyed = request_key("cancel", actor, idempotency_key, request=["job", job_id, mode, reason])
    return await write_once(
        ledger, keyed, _cancel_job, job_id, returns=bool, mode=mode, actor=actor, reason=reason
    )


async def _cancel_job(
    ledger: Ledger, tx: Transaction, job_id: int, *, mode: CancelMode, actor: str, reason: str
) -> bool:
    if not await flag_job(ledger, tx, job_id, mode=mode, actor=actor, reason=reason):
        return False
    did = NewAction(actor, "cancel", "job", str(job_id), reason, {"mode": mode})
    await record_actions(tx, [did])
    return True


async def flag_job(
    _: Ledger, tx: Transaction, job_id: int, *, mode: CancelMode, actor: str, reason: str
) -> bool:
    """Flag a job and leave its tasks to the sweep; False if there was nothing to flag."""
    job = await lock_job(tx, job_id)
    if job is None:
        raise NotFound("job", job_id)
    if job.finished or job.cancel_mode in ("hard", mode):
        return False
    await flag_cancel(tx, [(job_id, reason)], mode=mode, actor=actor)
    await add_follow_ups(tx, [("sweep", job_id)])
    return True


async def cancel_task(
    ledger: Ledger,
    task_id: TaskId,
    mode: CancelMode,
    *,
    actor: str,
    reason: str = "cancelled",
    idempotency_key: str | None = None,
) -> bool:
    """Cancel one task; False if it had finished, or was cancelled like this before."""
    check_task_id(task_id)
    _check_words(mode, actor, reason)
    keyed = request_key("cancel", actor, idempotency_key, request=["task", task_id, mode, reason])
    return await write_once(
        ledger, keyed, _cancel_task, task_id, returns=bool, mode=mode, actor=actor, reason=reason
    )


async def _cancel_task(
    ledger: Ledger, tx: Transaction, task_id: TaskId, *, mode: CancelMode, actor: str, reason: str
) -> bool:
    await leave_line(tx, [Stretch.of(task_id)])
    tasks = await lock_tasks(tx, [task_id])
    if not tasks or not await read_job_flags(tx, [task_id.job_id]):
        raise NotFound("task", task_id)
    moves = Moves()
    stopped = await stop_tasks(
        ledger, tx, list(tasks.values()), moves=moves, mode=mode, actor=actor, reason=reason
    )
    await apply_moves(tx, moves)
    if not stopped:
        return False
    did = NewAction(actor, "cancel", "task", str(task_id), reason, {"mode": mode})
    await record_actions(tx, [did])
    return True


async def stop_tasks(
    ledger: Ledger,
    tx: Transaction,
    tasks: list[LockedTask],
    *,
    moves: Moves,
    mode: CancelMode,
    actor: str,
    reason: str,
) -> int:
    """Kill what has not begun; ask what runs to stop, or end it at once. Returns how many."""
    pending = [task.id for task in tasks if task.state == TaskState.PENDING]
    if pending:
        await kill_pending_tasks(tx, pending, actor=actor, cause=reason)
        for task_id in pending:
            moves.add(task_id.job_id, TaskState.PENDING, TaskState.KILLED)
    running = {task.id: task for task in tasks if task.state in OPEN_STATES}
    if not running:
        return len(pending)
    if mode == "soft":
        specs = await ledger.specs.load(tx, {task_id.job_id for task_id in running})
        graces = [
            (task_id, timedelta(seconds=specs[task_id.job_id].terms.grace))
            for task_id in sorted(running)
        ]
        return len(pending) + len(await request_soft_cancel(tx, graces, reason=reason))
    end = AttemptEnd(Killed(reason), actor=actor, released=False)
    ended = await end_locked(ledger, tx, running, judge=lambda *_: end, moves=moves)
    return len(pending) + len(ended.ends)


def _check_words(mode: str, actor: str, reason: str) -> None:
    if mode not in ("soft", "hard"):
        raise Invalid("mode", f"{mode!r} is unknown; use soft or hard")
    check_text("actor", actor, 256)
    check_text("reason", reason, 1024)
