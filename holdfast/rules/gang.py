"""What becomes of a gang when attempts of it end: one budget, one price, one restart for all.

A gang is placed as a whole. The first loss decides the round: the member to blame is charged, those
that still run end as its echo, and all go the same way: back to PENDING, or finished for good.
"""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    NOT_RETRYABLE,
    CancelMode,
    Failed,
    Killed,
    Outcome,
    Succeeded,
    TaskDeadLettered,
    TaskFinished,
    TaskRetried,
    TaskVerdict,
    WorkerFailed,
)
from holdfast.model.work.states import LIVE_STATES, OPEN_STATES, TaskState
from holdfast.rules.retry import (
    FREE_LOSSES_MAX,
    Counters,
    after_attempt,
    as_recorded,
)


class Member(NamedTuple):
    """One task of a gang; `cancel` is how the end of its open attempt has been asked for."""

    state: int
    counters: Counters
    cancel: CancelMode | None = None


class MemberEnding(NamedTuple):
    """How a member's attempt ends, and what follows for the member."""

    outcome: Outcome
    verdict: TaskVerdict


def after_round(
    members: Mapping[TaskId, Member],
    outcomes: Mapping[TaskId, Outcome],
    terms: TaskTerms,
    *,
    job_is_live: bool,
    jitter: float,
) -> dict[TaskId, MemberEnding]:
    """Decide what becomes of a whole gang when some attempts end; who is to blame comes first.

    Siblings are left to the sweep once the job is terminal or flagged for cancel.
    """
    own = {task_id: as_recorded(o, members[task_id].cancel) for task_id, o in outcomes.items()}
    culprit = _find_culprit(own)
    if culprit is None:
        return {
            task_id: MemberEnding(outcome, _finish(outcome, members[task_id].counters))
            for task_id, outcome in own.items()
        }
    # A gang that has lost a member for good has paid for its last round, and never starts again.
    is_broken = any(_is_lost(member) for member in members.values())
    spent = _add_up(members)
    fate = after_attempt(
        spent, own[culprit], terms, job_is_live=job_is_live and not is_broken, jitter=jitter
    )
    counters = {task_id: member.counters for task_id, member in members.items()}
    if not is_broken:
        counters[culprit] = _charge(counters[culprit], spent, fate)
    echo = WorkerFailed(f"a sibling failed: {culprit}", free=True)
    echoes = {
        task_id: as_recorded(echo, member.cancel)
        for task_id, member in members.items()
        if job_is_live and member.state in OPEN_STATES and task_id not in own
    }
    # The job's error is the first in this order, never an echo.
    ends = {culprit: own[culprit]} | own | echoes
    return {
        task_id: MemberEnding(
            outcome, _share(fate, outcome, counters=counters[task_id], terms=terms)
        )
        for task_id, outcome in ends.items()
    }


def _find_culprit(outcomes: Mapping[TaskId, Outcome]) -> TaskId | None:
    """Choose who is to blame, if there was a loss: the gravest, then the first member."""
    losses = [
        (_gravity(outcome), task_id)
        for task_id, outcome in outcomes.items()
        if isinstance(outcome, Failed | WorkerFailed)
    ]
    return min(losses)[1] if losses else None


def _gravity(loss: Failed | WorkerFailed) -> int:
    """Rank a loss: from one that no retry can mend, the lowest, to one that costs nothing."""
    if isinstance(loss, Failed):
        if loss.put_off is not None and loss.put_off.free:
            return 4
        return 0 if loss.error_class in NOT_RETRYABLE else 1
    if loss.free:
        return 4
    return 3 if loss.excused else 2


def _is_lost(member: Member) -> bool:
    return member.state not in LIVE_STATES and member.state != TaskState.SUCCEEDED


def _add_up(members: Mapping[TaskId, Member]) -> Counters:
    """Add up what the gang has spent; free losses in a row are of those that still take part."""
    spent = [member.counters for member in members.values()]
    live = [member.counters for member in members.values() if member.state in LIVE_STATES]
    return Counters(
        sum(counters.failure_count for counters in spent),
        sum(counters.preemption_count for counters in spent),
        sum(counters.free_loss_count for counters in live),
    )


def _charge(counters: Counters, spent: Counters, fate: TaskVerdict) -> Counters:
    """Raise one member's counters by what the round has cost the gang."""
    unseen = isinstance(fate, TaskRetried) and fate.free_loss_count > spent.free_loss_count
    return Counters(
        counters.failure_count + fate.failure_count - spent.failure_count,
        counters.preemption_count + fate.preemption_count - spent.preemption_count,
        counters.free_loss_count + unseen,
    )


def _share(
    fate: TaskVerdict, outcome: Outcome, *, counters: Counters, terms: TaskTerms
) -> TaskVerdict:
    """Let a member share the gang's fate; each attempt keeps the end it had."""
    finished = _finish(outcome, counters)
    if isinstance(outcome, Succeeded | Killed):
        return finished
    if isinstance(fate, TaskRetried):
        # Losses that nobody saw count in a row; any other end of a round breaks the row.
        unseen = counters.free_loss_count if fate.free_loss_count else 0
        return TaskRetried(finished.state, *counters[:2], unseen, fate.delay)
    if isinstance(fate, TaskDeadLettered) and fate.state == finished.state:
        # Whoever spent the last of that budget is a dead letter; an echo has spent nothing.
        last = Counters(terms.max_retries_failure, terms.max_retries_preemption, FREE_LOSSES_MAX)
        alone = after_attempt(last, outcome, terms, job_is_live=False, jitter=0.0)
        if isinstance(alone, TaskDeadLettered):
            return TaskDeadLettered(finished.state, *counters[:2], alone.reason_code)
    return finished


def _finish(outcome: Outcome, counters: Counters) -> TaskFinished:
    match outcome:
        case Succeeded():
            state = TaskState.SUCCEEDED
        case Failed():
            state = TaskState.FAILED
        case Killed():
            state = TaskState.KILLED
        case WorkerFailed():
            state = TaskState.WORKER_FAILED
    return TaskFinished(state, *counters[:2])
