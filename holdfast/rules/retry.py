"""What becomes of a task once its current attempt has ended: budgets, backoff, dead letters."""

from typing import NamedTuple, assert_never

from holdfast.model.outcomes import (
    CancelMode,
    Failed,
    Killed,
    Outcome,
    ReasonCode,
    Succeeded,
    TaskDeadLettered,
    TaskFinished,
    TaskRetried,
    TaskVerdict,
    WorkerFailed,
)
from holdfast.model.spec import Backoff, TaskTerms
from holdfast.model.states import TaskState

NOT_RETRYABLE = frozenset({"PermanentError", "ValidationError", "ParseError"})
FREE_LOSSES_MAX = 5  # in a row, of attempts that their worker never acknowledged
_EXPONENT_MAX = 64

_REASONS: dict[str, ReasonCode] = {
    "ValidationError": "validation_failed",
    "ParseError": "parse_error",
    "Timeout": "timeout",
    "DependencyUnavailable": "dependency_unavailable",
}


class Counters(NamedTuple):
    """What a task has used of its budgets so far."""

    failure_count: int = 0
    preemption_count: int = 0
    free_loss_count: int = 0


def as_recorded(outcome: Outcome, cancel: CancelMode | None) -> Outcome:
    """Turn any end but success into KILLED once a soft cancel has been asked for."""
    if cancel != "soft":
        return outcome
    match outcome:
        case Failed():
            return Killed("cancelled", error=outcome.error, exit_code=outcome.exit_code)
        case WorkerFailed():
            return Killed("cancelled", error=outcome.cause)
        case Succeeded() | Killed():
            return outcome
        case _:
            assert_never(outcome)


def after_attempt(
    counters: Counters, outcome: Outcome, terms: TaskTerms, *, job_is_live: bool, jitter: float
) -> TaskVerdict:
    """Decide where a task goes once its current attempt has ended.

    `job_is_live` is false once the job is terminal or flagged for cancel: nothing is retried then.
    """
    match outcome:
        case Succeeded():
            return TaskFinished(TaskState.SUCCEEDED, *counters[:2])
        case Killed():
            return TaskFinished(TaskState.KILLED, *counters[:2])
        case WorkerFailed():
            return _after_loss(counters, outcome, terms, job_is_live=job_is_live, jitter=jitter)
        case Failed():
            return _after_failure(counters, outcome, terms, job_is_live=job_is_live, jitter=jitter)
        case _:
            assert_never(outcome)


def _after_failure(
    counters: Counters, failure: Failed, terms: TaskTerms, *, job_is_live: bool, jitter: float
) -> TaskVerdict:
    failures = counters.failure_count + 1
    retryable = failure.error_class not in NOT_RETRYABLE
    if retryable and failures <= terms.max_retries_failure:
        if not job_is_live:
            return TaskFinished(TaskState.FAILED, failures, counters.preemption_count)
        delay = backoff_delay(terms.backoff, failures, jitter)
        return TaskRetried(TaskState.FAILED, failures, counters.preemption_count, 0, delay)
    if terms.is_compensation:
        reason: ReasonCode = "compensation_failed"
    elif terms.on_exhausted == "fail":
        return TaskFinished(TaskState.FAILED, failures, counters.preemption_count)
    else:
        reason = _REASONS.get(failure.error_class, "exhausted_retries")
    return TaskDeadLettered(TaskState.FAILED, failures, counters.preemption_count, reason)


def _after_loss(
    counters: Counters, loss: WorkerFailed, terms: TaskTerms, *, job_is_live: bool, jitter: float
) -> TaskVerdict:
    state = TaskState.WORKER_FAILED
    failures, preemptions = counters.failure_count, counters.preemption_count
    unseen_losses = counters.free_loss_count + 1 if not loss.acknowledged else 0
    if loss.free or 0 < unseen_losses <= FREE_LOSSES_MAX:
        if not job_is_live:
            return TaskFinished(state, failures, preemptions)
        return TaskRetried(state, failures, preemptions, unseen_losses, 0.0)
    preemptions += 1
    if preemptions <= terms.max_retries_preemption:
        if not job_is_live:
            return TaskFinished(state, failures, preemptions)
        # The first loss is most likely bad luck: try again at once.
        delay = backoff_delay(terms.backoff, preemptions, jitter) if preemptions > 1 else 0.0
        return TaskRetried(state, failures, preemptions, unseen_losses, delay)
    if terms.is_compensation:
        return TaskDeadLettered(state, failures, preemptions, "compensation_failed")
    if terms.on_exhausted == "fail":
        return TaskFinished(state, failures, preemptions)
    return TaskDeadLettered(state, failures, preemptions, "infrastructure_failure")


def dead_letter_by_operator(counters: Counters) -> TaskDeadLettered:
    """End a task because an operator says so, whatever is left of its budgets."""
    return TaskDeadLettered(TaskState.KILLED, *counters[:2], "policy_violation")


def backoff_delay(backoff: Backoff, count: int, jitter: float) -> float:
    """Compute the wait before a retry, in seconds; `jitter` is a random number in [0, 1)."""
    growth = backoff.factor ** min(count - 1, _EXPONENT_MAX)
    return min(backoff.ceiling, backoff.base * growth) * (0.5 + jitter)
