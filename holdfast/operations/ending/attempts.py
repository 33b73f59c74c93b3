"""The one way in which attempts end unless they succeed, whoever ends them.

A worker reports, a deadline passes, a worker is lost, somebody cancels or dead-letters: each brings
a judge, which says of a lease how its attempt ends. Locking, deciding and writing is done here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from random import random
from typing import NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves
from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.attempts import LockedLease, LockedTask
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    Failed,
    Killed,
    Outcome,
    Stage,
    Succeeded,
    TaskDeadLettered,
    TaskRetried,
    WorkerFailed,
)
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.freed_slots import open_after
from holdfast.operations.upkeep.requeue import promote
from holdfast.rules.ending import AttemptEnd, DecidedEnd, Judged, decide_ends
from holdfast.store.database import Transaction
from holdfast.store.tables.work import attempts
from holdfast.store.tables.work.attempts import EndedAttempt
from holdfast.store.tables.work.dead_letters import NewDeadLetter, dead_letter_tasks
from holdfast.store.tables.work.leases import lock_leases, release_leases
from holdfast.store.tables.work.signals import park
from holdfast.store.tables.work.tasks import RetriedTask, lock_tasks, retry_tasks

Judge = Callable[[LockedLease, TaskTerms], Judged]
# Where an attempt was that nobody says more of: it was ended from outside.
_STAGES: dict[int, Stage] = {
    TaskState.ASSIGNED: "fetch",
    TaskState.BUILDING: "fetch",
    TaskState.RUNNING: "exec",
}


class Ended(NamedTuple):
    """The attempts that have ended, siblings in gangs among them, and the leases released since."""

    ends: dict[Fence, AttemptEnd]
    released: list[Fence]


async def end_attempts(
    ledger: Ledger, tx: Transaction, task_ids: Iterable[TaskId], *, judge: Judge, moves: Moves
) -> Ended:
    """Lock tasks, of gangs all members, and end what the judge does not leave alone."""
    tasks = await lock_tasks(tx, await add_siblings(ledger, tx, task_ids))
    return await end_locked(ledger, tx, tasks, judge=judge, moves=moves)


async def add_siblings(ledger: Ledger, tx: Transaction, task_ids: Iterable[TaskId]) -> set[TaskId]:
    """Add the siblings of gang members, so that whole gangs are locked at once and in order."""
    wanted = set(task_ids)
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in wanted})
    for job_id, stored in specs.items():
        if stored.terms.is_gang:
            wanted.update(TaskId(job_id, index) for index in range(stored.num_tasks))
    return wanted


async def end_locked(
    ledger: Ledger,
    tx: Transaction,
    tasks: Mapping[TaskId, LockedTask],
    *,
    judge: Judge,
    moves: Moves,
) -> Ended:
    """End attempts of locked tasks, in their order.

    If a judge may find losses, all members of gangs are locked.
    """
    leases = await lock_leases(tx, tasks)
    specs = await ledger.specs.load(tx, {lease.job_id for lease in leases.values()})
    terms_by_job = {job_id: stored.terms for job_id, stored in specs.items()}
    ends: dict[TaskId, AttemptEnd] = {}
    gone: list[TaskId] = []
    for task_id in tasks:
        lease = leases.get(task_id)
        judged = None if lease is None else judge(lease, terms_by_job[lease.job_id])
        if judged == "gone":
            gone.append(task_id)
        elif judged is not None:
            ends[task_id] = judged
    jitters = {task_id: random() for task_id in ends}
    decided = decide_ends(ends, tasks, leases, terms_by_job=terms_by_job, jitters=jitters)
    await _write_ends(tx, decided, moves)
    await _release(tx, gone)
    return Ended(
        {leases[item.task.id].fence: item.end for item in decided},
        [leases[task_id].fence for task_id in gone],
    )


async def _write_ends(tx: Transaction, decided: Sequence[DecidedEnd], moves: Moves) -> None:
    """Write the ends of attempts and what follows for their tasks: finished, retried, dead."""
    if not decided:
        return
    runs = await attempts.end_attempts(tx, [_describe(item) for item in decided])
    assert len(runs) == len(decided), "an attempt ended without a lease"
    tx.news.runs += [(run.job_id, run.ran) for run in runs if run.ran is not None]
    _note_ends(tx, decided, runs)
    await open_after(tx, runs)
    await _retry(tx, decided)
    await _dead_letter(tx, decided)
    for item in decided:
        _count(moves, item)


def _note_ends(
    tx: Transaction, decided: Sequence[DecidedEnd], runs: Sequence[attempts.AttemptRun]
) -> None:
    """Note what the ends say of workers and of the work; a pause says nothing of either."""
    ends = {item.task.id: item for item in decided}
    for run in runs:
        item = ends[TaskId(run.job_id, run.task_index)]
        outcome, is_pause = item.end.outcome, _is_pause(item)
        if is_pause:
            tx.news.pauses[run.state] += 1
        elif not (isinstance(outcome, WorkerFailed) and outcome.free):
            tx.news.ends[run.worker_id, run.state] += 1
        if isinstance(outcome, Failed):
            tx.news.put_off += is_pause
            if not is_pause:
                tx.news.failures.append((run.job_id, run.ran is not None))


def _is_pause(item: DecidedEnd) -> bool:
    """Tell an end that user code wanted, to go on later, from one that something has gone wrong."""
    outcome = item.end.outcome
    is_wanted = item.end.is_parked or (isinstance(outcome, Failed) and outcome.put_off is not None)
    return is_wanted and isinstance(item.verdict, TaskRetried)


def _describe(item: DecidedEnd) -> EndedAttempt:
    end, verdict = item.end, item.verdict
    exit_code, error, error_class, stage = _error_of(end.outcome)
    return EndedAttempt(
        item.task.id,
        verdict.state,
        finished=not isinstance(verdict, TaskRetried | TaskDeadLettered),
        failure_count=verdict.failure_count,
        preemption_count=verdict.preemption_count,
        actor=end.actor,
        cause=_cause_of(end.outcome),
        exit_code=exit_code,
        error=error,
        error_class=error_class,
        stage=stage or _STAGES.get(item.task.state),
        reported=end.reported,
        released=end.released,
    )


async def _retry(tx: Transaction, decided: Sequence[DecidedEnd]) -> None:
    retried: list[RetriedTask] = []
    at_once: list[TaskId] = []
    parked: list[tuple[TaskId, int]] = []
    for task, end, verdict in decided:
        if isinstance(verdict, TaskRetried):
            delay = timedelta(seconds=verdict.delay)
            cause = _cause_of(end.outcome)
            retried.append(RetriedTask(task.id, delay, verdict.free_loss_count, cause))
            if end.released and not delay:
                at_once.append(task.id)
            if end.is_parked:
                parked.append((task.id, task.attempt))
    if retried:
        await retry_tasks(tx, retried)
        if parked:
            await park(tx, parked)
        await promote(tx, at_once)


async def _dead_letter(tx: Transaction, decided: Sequence[DecidedEnd]) -> None:
    letters: list[NewDeadLetter] = []
    for task, end, verdict in decided:
        if isinstance(verdict, TaskDeadLettered):
            # An operator's doing; that a budget has run out is for the server to notice.
            actor, cause = "server", str(verdict.reason_code)
            if isinstance(end.outcome, Killed):
                actor, cause = end.actor, end.outcome.cause
            letters.append(NewDeadLetter(task.id, verdict.reason_code, actor, cause))
    if letters:
        await dead_letter_tasks(tx, letters)


def _count(moves: Moves, item: DecidedEnd) -> None:
    job_id, start, outcome = item.task.job_id, item.task.state, item.end.outcome
    match item.verdict:
        case TaskRetried():
            moves.add(job_id, start, TaskState.PENDING, through=item.verdict.state)
            moves.require_live(job_id)
            return
        case TaskDeadLettered():
            moves.add(job_id, start, TaskState.DEAD_LETTERED, through=item.verdict.state)
        case _:
            moves.add(job_id, start, item.verdict.state)
    if not isinstance(outcome, Killed):
        exit_code, error, _, _ = _error_of(outcome)
        moves.add_error(job_id, error, exit_code)
    elif outcome.timed_out:
        moves.add_timeout(job_id)
        moves.add_error(job_id, outcome.cause)


async def _release(tx: Transaction, task_ids: Sequence[TaskId]) -> None:
    """Give up ending leases of locked tasks; what waited for that alone is ready at once."""
    if task_ids:
        released = await release_leases(tx, task_ids)
        assert len(released) == len(task_ids), "a lease was released without an ended attempt"
        await open_after(tx, released)
        await promote(tx, task_ids)


def _cause_of(outcome: Outcome) -> str | None:
    match outcome:
        case Killed() | WorkerFailed():
            return outcome.cause
        case Failed():
            return outcome.error_class
        case Succeeded():
            return None


def _error_of(outcome: Outcome) -> tuple[int | None, str | None, str | None, Stage | None]:
    """Take exit code, error, class and stage from an outcome."""
    match outcome:
        case Failed():
            return outcome.exit_code, outcome.error, outcome.error_class, outcome.stage
        case Killed():
            return outcome.exit_code, outcome.error, None, None
        case WorkerFailed():
            return None, outcome.cause, outcome.error_class, None
        case Succeeded():
            return 0, None, None, None
