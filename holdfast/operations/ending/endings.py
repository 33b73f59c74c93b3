"""How open attempts end, whoever ends them: the worker, a deadline, a cancel, an operator."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import random

from holdfast.ledger.moves import Moves
from holdfast.model.ids import TaskId
from holdfast.model.outcomes import (
    Failed,
    Killed,
    Outcome,
    ReasonCode,
    Succeeded,
    TaskDeadLettered,
    TaskRetried,
    TaskVerdict,
    WorkerFailed,
)
from holdfast.model.spec import Policy
from holdfast.model.states import TaskState
from holdfast.rules.retry import Counters, after_attempt, as_recorded
from holdfast.store.database import Transaction
from holdfast.store.rows import LockedLease, LockedTask
from holdfast.store.statements import load_statements

_TASKS = load_statements("tasks")
_READY = load_statements("ready")
_LEASES = load_statements("leases")


@dataclass(frozen=True, slots=True)
class Ending:
    """One attempt's end, decided but not yet written."""

    task: LockedTask
    outcome: Outcome
    verdict: TaskVerdict
    actor: str
    reported: bool
    released: bool


@dataclass(frozen=True, slots=True)
class Burial:
    """One task's way to the dead letters, and whose doing it is."""

    task_id: TaskId
    reason_code: ReasonCode
    actor: str
    cause: str


def decide_ending(
    task: LockedTask,
    lease: LockedLease,
    outcome: Outcome,
    *,
    policy: Policy,
    actor: str,
    reported: bool = False,
    released: bool = True,
) -> Ending:
    """Ask the rules what becomes of a task whose open attempt ends with this outcome."""
    outcome = as_recorded(outcome, lease.cancel)
    verdict = after_attempt(
        Counters(task.failure_count, task.preemption_count, task.free_loss_count),
        outcome,
        policy,
        job_is_live=lease.job_is_live,
        jitter=random(),
    )
    return Ending(task, outcome, verdict, actor, reported, released)


async def lock_tasks(tx: Transaction, task_ids: Iterable[TaskId]) -> dict[TaskId, LockedTask]:
    """Lock tasks in the order of their ids; those that do not exist are left out."""
    ordered = sorted(set(task_ids))
    rows = await tx.fetch(_TASKS["lock_tasks"], **id_columns(ordered))
    return {TaskId(row[0], row[1]): LockedTask(*row) for row in rows}


async def lock_leases(tx: Transaction, task_ids: Iterable[TaskId]) -> dict[TaskId, LockedLease]:
    """Lock the leases of tasks that are locked already."""
    rows = await tx.fetch(_LEASES["lock_leases"], **id_columns(sorted(set(task_ids))))
    return {TaskId(row[0], row[1]): LockedLease(*row) for row in rows}


def id_columns(task_ids: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    """Spread ids into the two arrays that statements take."""
    return {
        "job_ids": [task_id[0] for task_id in task_ids],
        "task_indexes": [task_id[1] for task_id in task_ids],
    }


async def apply_endings(tx: Transaction, moves: Moves, endings: Sequence[Ending]) -> None:
    """Write the ends of attempts and what follows for their tasks: finished, retried, dead."""
    if not endings:
        return
    errors = [_error_columns(ending.outcome) for ending in endings]
    rows = await tx.fetch(
        _TASKS["end_attempts"],
        **id_columns([ending.task.id for ending in endings]),
        states=[int(ending.verdict.state) for ending in endings],
        finished=[not isinstance(e.verdict, TaskRetried | TaskDeadLettered) for e in endings],
        failure_counts=[ending.verdict.failure_count for ending in endings],
        preemption_counts=[ending.verdict.preemption_count for ending in endings],
        actors=[ending.actor for ending in endings],
        causes=[_cause(ending.outcome) for ending in endings],
        exit_codes=[error[0] for error in errors],
        errors=[error[1] for error in errors],
        error_classes=[error[2] for error in errors],
        stages=[error[3] for error in errors],
        reported=[ending.reported for ending in endings],
        released=[ending.released for ending in endings],
    )
    assert len(rows) == len(endings), "an attempt ended without a lease"
    tx.news.runs += [(job_id, ran) for job_id, _, ran in rows if ran is not None]
    failed = {ending.task.id for ending in endings if isinstance(ending.outcome, Failed)}
    tx.news.failures += [
        (job_id, ran is not None) for job_id, index, ran in rows if (job_id, index) in failed
    ]
    await _retry(tx, [ending for ending in endings if isinstance(ending.verdict, TaskRetried)])
    await _bury(tx, [ending for ending in endings if isinstance(ending.verdict, TaskDeadLettered)])
    for ending in endings:
        _count(moves, ending)


def _count(moves: Moves, ending: Ending) -> None:
    job_id, start = ending.task.job_id, ending.task.state
    match ending.verdict:
        case TaskRetried():
            moves.add(job_id, start, TaskState.PENDING, through=ending.verdict.state)
            moves.require_live(job_id)
            return
        case TaskDeadLettered():
            moves.add(job_id, start, TaskState.DEAD_LETTERED, through=ending.verdict.state)
        case _:
            moves.add(job_id, start, ending.verdict.state)
    if isinstance(ending.outcome, Killed):
        if ending.outcome.timed_out:
            moves.add_timeout(job_id)
            moves.add_error(job_id, ending.outcome.cause)
    else:
        exit_code, error, _, _ = _error_columns(ending.outcome)
        moves.add_error(job_id, error, exit_code)


async def _retry(tx: Transaction, endings: Sequence[Ending]) -> None:
    if not endings:
        return
    verdicts = [ending.verdict for ending in endings if isinstance(ending.verdict, TaskRetried)]
    await tx.fetch(
        _TASKS["retry_tasks"],
        **id_columns([ending.task.id for ending in endings]),
        delays=[timedelta(seconds=verdict.delay) for verdict in verdicts],
        free_loss_counts=[verdict.free_loss_count for verdict in verdicts],
        causes=[_cause(ending.outcome) for ending in endings],
    )
    at_once = [
        ending.task.id
        for ending, verdict in zip(endings, verdicts, strict=True)
        if ending.released and verdict.delay == 0
    ]
    await promote(tx, at_once)


async def promote(tx: Transaction, task_ids: Sequence[TaskId]) -> int:
    """Make locked tasks claimable whose time has come and whose last lease is gone; counts them."""
    if not task_ids:
        return 0
    rows = await tx.fetch(_READY["promote_waiting"], **id_columns(task_ids))
    for job_id, task_index, queue in rows:
        tx.news.add_ready(queue, TaskId(job_id, task_index))
    return len(rows)


async def _bury(tx: Transaction, endings: Sequence[Ending]) -> None:
    burials = [
        Burial(
            ending.task.id,
            ending.verdict.reason_code,
            # An operator killed it for this; that a budget ran out is the server's to notice.
            ending.actor if isinstance(ending.outcome, Killed) else "server",
            ending.outcome.cause
            if isinstance(ending.outcome, Killed)
            else ending.verdict.reason_code,
        )
        for ending in endings
        if isinstance(ending.verdict, TaskDeadLettered)
    ]
    await bury_tasks(tx, burials)


async def bury_tasks(tx: Transaction, burials: Sequence[Burial]) -> None:
    """Move tasks to the dead letters."""
    if burials:
        await tx.fetch(
            _TASKS["dead_letter_tasks"],
            **id_columns([burial.task_id for burial in burials]),
            reason_codes=[burial.reason_code for burial in burials],
            actors=[burial.actor for burial in burials],
            causes=[burial.cause for burial in burials],
        )


def _cause(outcome: Outcome) -> str | None:
    match outcome:
        case Killed() | WorkerFailed():
            return outcome.cause
        case Failed():
            return outcome.error_class
        case Succeeded():
            return None


def _error_columns(outcome: Outcome) -> tuple[int | None, str | None, str | None, str | None]:
    """Take exit code, error, class and stage from an outcome."""
    match outcome:
        case Failed():
            return outcome.exit_code, outcome.error, outcome.error_class, outcome.stage
        case Killed():
            return outcome.exit_code, outcome.error, None, None
        case WorkerFailed():
            return None, outcome.cause, None, None
        case Succeeded():
            return 0, None, None, None
