"""Dead letters: put there by an operator or a policy, replayed as a new job, discarded."""

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.errors import IllegalMove, Invalid, NotFound
from holdfast.ledger.keys import request_key, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.work.attempts import LockedTask
from holdfast.model.work.ids import TaskId, check_task_id
from holdfast.model.work.outcomes import Killed
from holdfast.model.work.states import LIVE_STATES, OPEN_STATES, TaskState
from holdfast.operations.ending.attempts import end_locked
from holdfast.rules.ending import AttemptEnd
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Transaction
from holdfast.store.tables.access.actions import NewAction, record_actions
from holdfast.store.tables.work.dead_letters import (
    LetterState,
    NewDeadLetter,
    dead_letter_tasks,
    lock_dead_letters,
    mark_discarded,
)
from holdfast.store.tables.work.jobs import read_job_flags
from holdfast.store.tables.work.ready import Stretch, leave_line
from holdfast.store.tables.work.tasks import lock_tasks

IDS_MAX = 10_000


async def dead_letter_task(
    ledger: Ledger,
    task_id: TaskId,
    *,
    actor: str,
    reason: str = "dead-lettered by an operator",
    idempotency_key: str | None = None,
) -> None:
    """Move a task that has not finished to the dead letters, with reason policy_violation."""
    check_task_id(task_id)
    check_text("actor", actor, 256)
    check_text("reason", reason, 1024)
    keyed = request_key("dead-letter", actor, idempotency_key, request=[task_id, reason])
    await write_once(ledger, keyed, _dead_letter, task_id, returns=bool, actor=actor, reason=reason)


async def _dead_letter(
    ledger: Ledger, tx: Transaction, task_id: TaskId, *, actor: str, reason: str
) -> bool:
    await leave_line(tx, [Stretch.of(task_id)])
    tasks = await lock_tasks(tx, [task_id])
    if not tasks or not await read_job_flags(tx, [task_id.job_id]):
        raise NotFound("task", task_id)
    task = tasks[task_id]
    if task.state not in LIVE_STATES:
        raise IllegalMove(f"task {task_id}", TaskState(task.state).name, "dead-letter")
    await dead_letter_locked(ledger, tx, tasks, actor=actor, reason=reason)
    await record_actions(tx, [NewAction(actor, "dead_letter", "task", str(task_id), reason)])
    return True


async def dead_letter_locked(
    ledger: Ledger,
    tx: Transaction,
    tasks: Mapping[TaskId, LockedTask],
    *,
    actor: str,
    reason: str,
) -> None:
    """Move live tasks of a job, locked, to the dead letters, with reason policy_violation."""
    moves = Moves()
    open_tasks = {task_id: task for task_id, task in tasks.items() if task.state in OPEN_STATES}
    if open_tasks:
        # The attempts end as KILLED, their leases as ending; then the tasks go where they are sent.
        end = AttemptEnd(Killed(reason), actor=actor, released=False, is_dead_letter=True)
        ended = await end_locked(ledger, tx, open_tasks, judge=lambda *_: end, moves=moves)
        assert len(ended.ends) == len(open_tasks), "an open task has no lease"
    waiting = [task_id for task_id in tasks if task_id not in open_tasks]
    if waiting:
        letters = [NewDeadLetter(task_id, "policy_violation", actor, reason) for task_id in waiting]
        await dead_letter_tasks(tx, letters)
    for task_id in waiting:
        moves.add(task_id.job_id, TaskState.PENDING, TaskState.DEAD_LETTERED)
    for job_id in {task_id.job_id for task_id in tasks}:
        moves.add_error(job_id, reason)
    await apply_moves(tx, moves)


async def discard(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    idempotency_key: str | None = None,
) -> None:
    """Decide that dead letters need nothing more; they stay readable until retention."""
    check_letter_ids(task_ids)
    check_text("actor", actor, 256)
    keyed = request_key("discard", actor, idempotency_key, request=sorted(task_ids))
    await write_once(ledger, keyed, _discard, task_ids, returns=bool, actor=actor)


async def _discard(_: Ledger, tx: Transaction, task_ids: Sequence[TaskId], *, actor: str) -> bool:
    await lock_letters(tx, task_ids, "discard")
    await mark_discarded(tx, task_ids, actor=actor)
    counts = Counter(task_id.job_id for task_id in task_ids)
    await record_actions(
        tx,
        [
            NewAction(actor, "discard", "job", str(job_id), facts={"dead_letters": count})
            for job_id, count in sorted(counts.items())
        ],
    )
    return True


async def lock_letters(tx: Transaction, task_ids: Sequence[TaskId], request: str) -> None:
    """Lock dead letters; settled ones are refused."""
    check_letters(await lock_dead_letters(tx, task_ids), task_ids, request)


def check_letters(
    found: Mapping[TaskId, LetterState],
    task_ids: Sequence[TaskId],
    request: str,
    *,
    only_open: bool = True,
) -> None:
    """Refuse dead letters that do not exist and, unless asked for, those that are settled."""
    for task_id in task_ids:
        letter = found.get(task_id)
        if letter is None:
            raise NotFound("dead letter", task_id)
        if not only_open:
            continue
        if letter.discarded_at is not None:
            raise IllegalMove(f"dead letter {task_id}", "discarded", request)
        if letter.replayed_as is not None:
            state = f"replayed as job {letter.replayed_as}"
            raise IllegalMove(f"dead letter {task_id}", state, request)


def check_letter_ids(task_ids: Sequence[TaskId]) -> None:
    """Refuse none, too many, the same twice, and what is no task."""
    if not 1 <= len(task_ids) <= IDS_MAX:
        raise Invalid("task_ids", f"names {len(task_ids)} tasks; give 1 to {IDS_MAX}")
    if len(set(task_ids)) != len(task_ids):
        raise Invalid("task_ids", "names a task twice")
    for task_id in task_ids:
        check_task_id(task_id)
