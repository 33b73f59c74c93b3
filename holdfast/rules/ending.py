"""How attempts end: by their worker's report, by a deadline, with their worker; and what follows.

The first four judge one lease each: how its open attempt ends; that the process of an attempt that
has ended is gone; or None, to leave it alone. `decide_ends` then says what becomes of the tasks.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.attempts import LockedLease, LockedTask
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    Failed,
    Killed,
    Outcome,
    PutOff,
    Stage,
    Status,
    TaskVerdict,
    WorkerFailed,
)
from holdfast.rules.gang import Member, after_round
from holdfast.rules.outage import Watch, is_free, is_waiting
from holdfast.rules.retry import (
    Counters,
    after_attempt,
    as_recorded,
    bound_put_off,
    dead_letter_by_operator,
    is_hopeless,
)


class AttemptEnd(NamedTuple):
    """How an open attempt ends and who says so; what follows for its task is not decided yet."""

    outcome: Outcome
    actor: str = "server"
    reported: bool = False
    # Whether its process is known to be gone; if not, the lease lives on as ending.
    released: bool = True
    # Whether the task goes to the dead letters, whatever is left of its budgets.
    is_dead_letter: bool = False
    # Whether its task waits for a signal before it is tried again.
    is_parked: bool = False


Judged = AttemptEnd | Literal["gone"] | None


def end_reported(
    lease: LockedLease,
    status: Status,
    *,
    exit_code: int | None,
    error: str | None,
    error_class: str | None,
    stage: Stage | None,
    outage: tuple[Watch, datetime] | None,
    earlier: Sequence[str] = (),
    put_off: PutOff | None = None,
    asked: str | None = None,
) -> Judged:
    """Judge by what the worker says, which is also that the process is gone.

    The outage, the time now, and the error classes of earlier attempts, the latest first, count for
    a worker that failed; a success that is judged here came without a start, and is none. `asked`
    is the signal that the attempt has asked for and has not got.
    """
    if lease.ending:
        return "gone"
    outcome: Outcome
    is_parked = False
    match status:
        case "handed_back":
            outcome = WorkerFailed("handed back", free=True)
        case "waiting" if asked is not None:
            outcome = WorkerFailed(f"waits for signal {asked}", free=True)
            is_parked = True
        case "waiting":
            outcome = Failed("it ended to wait, but has asked for no signal", "PermanentError")
        case "worker_failed":
            cause = error or "the worker could not run it"
            outcome = WorkerFailed(
                cause,
                free=_is_lost_to(outage, lease),
                error_class=error_class,
                is_hopeless=is_hopeless(error_class, earlier),
            )
        case "killed" if lease.cancel is None:
            outcome = WorkerFailed("killed by its worker without being asked")
        case "killed":
            reason = lease.cancel_reason or lease.job_cancel_reason or "cancelled"
            outcome = Killed(reason, error=error, exit_code=exit_code)
        case "failed" | "succeeded":
            outcome = Failed(
                error or _say_why(exit_code),
                error_class or "TransientError",
                stage or "exec",
                exit_code,
                put_off,
            )
    return AttemptEnd(outcome, actor=lease.worker_id, reported=True, is_parked=is_parked)


def end_overdue(lease: LockedLease, terms: TaskTerms, *, watch: Watch, now: datetime) -> Judged:
    """Judge by the deadlines: of the lease, of a soft cancel, of the run.

    The first proves that the process is gone, by the worker's own clock; the others end the state
    only.
    """
    if lease.expires_at <= now and not is_waiting(watch, now):
        if lease.ending:
            return "gone"
        free = is_free(watch, lease.expires_at)
        loss = WorkerFailed("lease expired", free, excused=not lease.acknowledged)
        return AttemptEnd(loss)
    if lease.ending:
        return None
    if lease.cancel_deadline_at is not None and lease.cancel_deadline_at <= now:
        reason = lease.cancel_reason or "cancelled"
        killed = Killed(reason, error="the grace of its cancel was over")
        return AttemptEnd(killed, released=False)
    if lease.run_deadline_at is not None and lease.run_deadline_at <= now:
        text = f"ran longer than its timeout of {terms.timeout:g} s"
        if terms.on_timeout == "kill":
            return AttemptEnd(Killed("timeout", error=text, timed_out=True), released=False)
        # It has been running out since BUILDING.
        return AttemptEnd(Failed(text, error_class="Timeout", stage=None), released=False)
    return None


def end_lost(
    lease: LockedLease,
    *,
    cause: str,
    is_gone: bool,
    has_crashed: bool,
    outage: tuple[Watch, datetime],
) -> Judged:
    """Judge what a lost worker had; if it is gone, so are its processes.

    Of a worker that has crashed, nobody knows whose code it was: all that it had is excused.
    """
    if lease.ending:
        return "gone" if is_gone else None
    excused = has_crashed or not lease.acknowledged
    loss = WorkerFailed(cause, _is_lost_to(outage, lease), excused)
    return AttemptEnd(loss, released=is_gone)


def end_undelivered(lease: LockedLease) -> Judged:
    """Judge what is known not to have reached its worker: no process of it has begun there."""
    if lease.acknowledged:
        return None
    if lease.ending:
        return "gone"
    return AttemptEnd(WorkerFailed("it did not arrive on its worker", excused=True))


def _say_why(exit_code: int | None) -> str:
    """Word a failure of which its worker has said no more."""
    return "failed without an error" if exit_code is None else f"exit code {exit_code}"


def _is_lost_to(outage: tuple[Watch, datetime] | None, lease: LockedLease) -> bool:
    """Tell whether a lease ran out because nobody was there to renew it."""
    if outage is None:
        return False
    watch, now = outage
    return lease.expires_at <= now and is_free(watch, lease.expires_at)


class DecidedEnd(NamedTuple):
    """How an attempt ends, as it is recorded, and what becomes of its task."""

    task: LockedTask
    end: AttemptEnd
    verdict: TaskVerdict


def decide_ends(
    ends: Mapping[TaskId, AttemptEnd],
    tasks: Mapping[TaskId, LockedTask],
    leases: Mapping[TaskId, LockedLease],
    *,
    terms_by_job: Mapping[int, TaskTerms],
    jitters: Mapping[TaskId, float],
) -> list[DecidedEnd]:
    """Decide what follows from the ends of open attempts; siblings in gangs end along with them.

    Where a member of a gang is lost, all of its members are among the tasks and leases.
    """
    decided: list[DecidedEnd] = []
    gangs: dict[int, dict[TaskId, AttemptEnd]] = defaultdict(dict)
    for task_id, judged in ends.items():
        task, lease, terms = tasks[task_id], leases[task_id], terms_by_job[task_id.job_id]
        outcome = bound_put_off(judged.outcome, _counters(task), task.attempt)
        end = judged._replace(outcome=outcome)
        if end.is_dead_letter:
            decided.append(DecidedEnd(task, end, dead_letter_by_operator(_counters(task))))
        elif terms.is_gang:
            gangs[task_id.job_id][task_id] = end
        else:
            outcome = as_recorded(end.outcome, lease.cancel)
            verdict = after_attempt(
                _counters(task),
                outcome,
                terms,
                job_is_live=lease.job_is_live,
                jitter=jitters[task_id],
            )
            decided.append(DecidedEnd(task, end._replace(outcome=outcome), verdict))
    for job_id, of_gang in gangs.items():
        members = {task_id: task for task_id, task in tasks.items() if task_id.job_id == job_id}
        decided += _decide_gang(
            of_gang, members, leases, terms=terms_by_job[job_id], jitters=jitters
        )
    return decided


def _decide_gang(
    ends: Mapping[TaskId, AttemptEnd],
    tasks: Mapping[TaskId, LockedTask],
    leases: Mapping[TaskId, LockedLease],
    *,
    terms: TaskTerms,
    jitters: Mapping[TaskId, float],
) -> list[DecidedEnd]:
    first = next(iter(ends))
    cancels = {task_id: leases[task_id].cancel for task_id in tasks.keys() & leases.keys()}
    decided = after_round(
        {
            task_id: Member(task.state, _counters(task), cancels.get(task_id))
            for task_id, task in tasks.items()
        },
        {task_id: end.outcome for task_id, end in ends.items()},
        terms,
        job_is_live=leases[first].job_is_live,
        jitter=jitters[first],
    )
    # An echo is the server's doing, and nobody has seen the sibling's process go.
    return [
        DecidedEnd(
            tasks[task_id],
            ends[task_id]._replace(outcome=outcome)
            if task_id in ends
            else AttemptEnd(outcome, released=False),
            verdict,
        )
        for task_id, (outcome, verdict) in decided.items()
    ]


def _counters(task: LockedTask) -> Counters:
    return Counters(task.failure_count, task.preemption_count, task.free_loss_count)
