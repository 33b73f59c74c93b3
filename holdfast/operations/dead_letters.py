"""Dead letters: put there by an operator or a policy, replayed as a new job, discarded."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from holdfast.errors import IllegalMove, Invalid, NotFound, TooLarge
from holdfast.ledger.keys import RequestKey, recall, request_key, wait_turn, write_once
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.attempts import LockedTask
from holdfast.model.ids import TaskId, check_task_id
from holdfast.model.outcomes import Killed
from holdfast.model.spec import Submission
from holdfast.model.states import LIVE_STATES, OPEN_STATES, TaskState
from holdfast.operations.ending.attempts import end_locked
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.chunk import hide_large, store_or_show
from holdfast.operations.submitting.resubmission import (
    PAGE_TASKS_MAX,
    Resubmission,
    check_inputs_size,
    describe_again,
    note_replays,
)
from holdfast.rules.ending import AttemptEnd
from holdfast.rules.submission import check_text, complete_submission
from holdfast.store.database import Transaction
from holdfast.store.tables.dead_letters import (
    NewDeadLetter,
    dead_letter_tasks,
    lock_dead_letters,
    mark_discarded,
    mark_replayed,
    measure_letter_inputs,
    read_letter_inputs,
)
from holdfast.store.tables.jobs import read_job_flags
from holdfast.store.tables.tasks import lock_tasks

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
    tasks = await lock_tasks(tx, [task_id])
    if not tasks or not await read_job_flags(tx, [task_id.job_id]):
        raise NotFound("task", task_id)
    task = tasks[task_id]
    if task.state not in LIVE_STATES:
        raise IllegalMove(f"task {task_id}", TaskState(task.state).name, "dead-letter")
    await dead_letter_locked(ledger, tx, tasks, actor=actor, reason=reason)
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


@dataclass(frozen=True, slots=True)
class Replay:
    """Dead letters of one job, and the new job that runs them again (None in a dry run)."""

    replay_of: int
    task_ids: tuple[TaskId, ...]
    job_id: int | None


class _Plan(NamedTuple):
    """Dead letters of one job in the order of their ids, and what runs them again."""

    task_ids: tuple[TaskId, ...]
    again: Resubmission


async def replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    dry_run: bool = False,
    keyed: RequestKey | None = None,
    rebind: bool = False,
) -> list[Replay]:
    """Submit dead letters again: a new job for each job they came from, linked to it.

    With inputs, the new job has the dead inputs; replicas belong together and run again as a whole.
    If it may rebind, it writes the newest open version where the one that was named is sealed.
    """
    _check_ids(task_ids)
    check_text("actor", actor, 256)
    if dry_run:
        plans = await _plan(ledger, task_ids, rebind=rebind)
        return [Replay(plan.again.job_id, plan.task_ids, None) for plan in plans]
    again = partial(_replay, ledger, task_ids, actor=actor, keyed=keyed, rebind=rebind)
    return await again() if keyed is None else await wait_turn(keyed, again)


async def _replay(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    keyed: RequestKey | None,
    rebind: bool,
) -> list[Replay]:
    first = await recall(ledger, keyed, list[Replay])
    if first is not None:
        return first
    plans = await _plan(ledger, task_ids, only_open=keyed is None, rebind=rebind)
    jobs = await admit(ledger, await _describe(ledger, plans))
    total = sum(job.num_tasks for job in jobs)
    if total > ledger.limits.tasks_max:
        raise TooLarge("task_ids", total, ledger.limits.tasks_max, unit="tasks")
    hidden = await hide_large(ledger, jobs)
    return await write_once(
        ledger, keyed, _store, plans, returns=list[Replay], jobs=jobs, hidden=hidden, actor=actor
    )


async def _plan(
    ledger: Ledger, task_ids: Sequence[TaskId], *, only_open: bool = True, rebind: bool
) -> list[_Plan]:
    """Find out which jobs there will be, without the inputs; their size is bounded.

    Under a key, letters that are settled are left to the transaction that takes it: the same
    request may have settled them.
    """
    async with ledger.database.transaction() as tx:
        await _lock_letters(tx, task_ids, "replay", only_open=only_open)
        by_job: dict[int, list[TaskId]] = defaultdict(list)
        for task_id in sorted(task_ids):
            by_job[task_id.job_id].append(task_id)
        again = await describe_again(ledger, tx, by_job.keys(), rebind=rebind)
        with_inputs = [task_id for task_id in task_ids if again[task_id.job_id].has_inputs]
        check_inputs_size(await measure_letter_inputs(tx, with_inputs))
    return [_Plan(tuple(group), again[job_id]) for job_id, group in sorted(by_job.items())]


async def _describe(ledger: Ledger, plans: Sequence[_Plan]) -> list[Submission]:
    """Describe the new jobs, the inputs of all of them read a page at a time."""
    wanted = [task_id for plan in plans if plan.again.has_inputs for task_id in plan.task_ids]
    inputs: dict[TaskId, str] = {}
    for first in range(0, len(wanted), PAGE_TASKS_MAX):
        async with ledger.database.transaction() as tx:
            inputs |= await read_letter_inputs(tx, wanted[first : first + PAGE_TASKS_MAX])
    for task_id in wanted:
        if task_id not in inputs:  # retention was faster
            raise NotFound("dead letter", task_id)
    return [
        complete_submission(
            plan.again.submission(
                tuple(inputs[task_id] for task_id in plan.task_ids) if plan.again.has_inputs else ()
            ),
            ledger.limits,
        )
        for plan in plans
    ]


async def _store(
    _: Ledger,
    tx: Transaction,
    plans: list[_Plan],
    *,
    jobs: list[Admitted],
    hidden: dict[int, Admitted],
    actor: str,
) -> list[Replay]:
    # Locked and checked again: somebody may have replayed or discarded them meanwhile.
    await _lock_letters(tx, [task_id for plan in plans for task_id in plan.task_ids], "replay")
    # Refused if a job whose result one of them needs is gone.
    submitted = await store_or_show(tx, jobs, hidden)
    made = [(plan, job.job_id) for plan, job in zip(plans, submitted, strict=True)]
    await mark_replayed(tx, {task_id: job_id for plan, job_id in made for task_id in plan.task_ids})
    await note_replays(tx, {plan.again.job_id: job_id for plan, job_id in made}, actor=actor)
    return [Replay(plan.again.job_id, plan.task_ids, job_id) for plan, job_id in made]


async def discard(
    ledger: Ledger,
    task_ids: Sequence[TaskId],
    *,
    actor: str,
    idempotency_key: str | None = None,
) -> None:
    """Decide that dead letters need nothing more; they stay readable until retention."""
    _check_ids(task_ids)
    check_text("actor", actor, 256)
    keyed = request_key("discard", actor, idempotency_key, request=sorted(task_ids))
    await write_once(ledger, keyed, _discard, task_ids, returns=bool, actor=actor)


async def _discard(_: Ledger, tx: Transaction, task_ids: Sequence[TaskId], *, actor: str) -> bool:
    await _lock_letters(tx, task_ids, "discard")
    await mark_discarded(tx, task_ids, actor=actor)
    return True


async def _lock_letters(
    tx: Transaction, task_ids: Sequence[TaskId], request: str, *, only_open: bool = True
) -> None:
    """Lock dead letters; settled ones are refused unless asked for."""
    found = await lock_dead_letters(tx, task_ids)
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


def _check_ids(task_ids: Sequence[TaskId]) -> None:
    if not 1 <= len(task_ids) <= IDS_MAX:
        raise Invalid("task_ids", f"names {len(task_ids)} tasks; give 1 to {IDS_MAX}")
    if len(set(task_ids)) != len(task_ids):
        raise Invalid("task_ids", "names a task twice")
    for task_id in task_ids:
        check_task_id(task_id)
