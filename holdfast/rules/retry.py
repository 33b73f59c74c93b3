"""What becomes of a task once its current attempt has ended: budgets, backoff, dead letters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from holdfast.model.submitting.spec import Backoff, TaskTerms
from holdfast.model.work.outcomes import (
    BUILD_UNAVAILABLE,
    MISSING_TOOL,
    NOT_RETRYABLE,
    REFUSED_BY_WORKER,
    CancelMode,
    Failed,
    Killed,
    Outcome,
    PutOff,
    ReasonCode,
    Succeeded,
    TaskDeadLettered,
    TaskFinished,
    TaskRetried,
    TaskVerdict,
    WorkerFailed,
)
from holdfast.model.work.states import TaskState

FREE_LOSSES_MAX = 5  # of those that are excused; of placed work, in a row
# Of a task's attempts, so many may be put off at no cost; what comes after costs retries.
FREE_PUT_OFFS_MAX = 1000
# Losses of one kind in a row, before a task that fails alike everywhere ends. An index may come
# back: with the usual backoff twenty of them last a quarter of an hour.
LOSSES_IN_A_ROW_MAX = {MISSING_TOOL: 5, BUILD_UNAVAILABLE: 20}
_EXPONENT_MAX = 64

_REASONS: dict[str, ReasonCode] = {
    "ValidationError": "validation_failed",
    "ParseError": "parse_error",
    "Timeout": "timeout",
    "DependencyUnavailable": "dependency_unavailable",
    REFUSED_BY_WORKER: "policy_violation",
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
    put_off = failure.put_off
    is_free = put_off is not None and put_off.free
    failures = counters.failure_count + (0 if is_free else 1)
    retryable = failure.error_class not in NOT_RETRYABLE
    if retryable and (is_free or failures <= terms.max_retries_failure):
        if not job_is_live:
            return TaskFinished(TaskState.FAILED, failures, counters.preemption_count)
        delay = (
            backoff_delay(terms.backoff, failures, jitter)
            if put_off is None
            else put_off.after_ms / 1000
        )
        free_losses = _kept_free_losses(counters, terms)
        return TaskRetried(
            TaskState.FAILED, failures, counters.preemption_count, free_losses, delay
        )
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
    free_losses = counters.free_loss_count + 1
    if not loss.excused:
        free_losses = _kept_free_losses(counters, terms)
    if loss.free or (loss.excused and free_losses <= FREE_LOSSES_MAX):
        if not job_is_live:
            return TaskFinished(state, failures, preemptions)
        return TaskRetried(state, failures, preemptions, free_losses, 0.0)
    preemptions += 1
    if preemptions <= terms.max_retries_preemption and not loss.is_hopeless:
        if not job_is_live:
            return TaskFinished(state, failures, preemptions)
        # The first loss is most likely bad luck: try again at once.
        delay = backoff_delay(terms.backoff, preemptions, jitter) if preemptions > 1 else 0.0
        return TaskRetried(state, failures, preemptions, free_losses, delay)
    if terms.is_compensation:
        return TaskDeadLettered(state, failures, preemptions, "compensation_failed")
    if terms.on_exhausted == "fail":
        return TaskFinished(state, failures, preemptions)
    return TaskDeadLettered(state, failures, preemptions, "infrastructure_failure")


def bound_put_off(outcome: Outcome, counters: Counters, attempt: int) -> Outcome:
    """Have it cost a retry that a task is put off, once so many attempts have cost nothing."""
    if not isinstance(outcome, Failed) or outcome.put_off is None or not outcome.put_off.free:
        return outcome
    if attempt - counters.failure_count - counters.preemption_count < FREE_PUT_OFFS_MAX:
        return outcome
    return replace(outcome, put_off=PutOff(outcome.put_off.after_ms))


def is_hopeless(error_class: str | None, earlier: Sequence[str]) -> bool:
    """Tell whether one worker after the other could not even begin, for the same reason.

    `earlier` begins with the latest. Other losses are retried while there is a budget.
    """
    count = LOSSES_IN_A_ROW_MAX.get(error_class or "")
    return count is not None and [error_class, *earlier][:count] == [error_class] * count


def _kept_free_losses(counters: Counters, terms: TaskTerms) -> int:
    """Count the excused losses that another end leaves: placed work counts them in a row.

    A claimed task has been in workers that crashed: it runs in a process of its own for good.
    """
    return 0 if terms.queue is None else counters.free_loss_count


def dead_letter_by_operator(counters: Counters) -> TaskDeadLettered:
    """End a task because an operator says so, whatever is left of its budgets."""
    return TaskDeadLettered(TaskState.KILLED, *counters[:2], "policy_violation")


def backoff_delay(backoff: Backoff, count: int, jitter: float) -> float:
    """Compute the wait before a retry, in seconds; `jitter` is a random number in [0, 1)."""
    growth = backoff.factor ** min(count - 1, _EXPONENT_MAX)
    return min(backoff.ceiling, backoff.base * growth) * (0.5 + jitter)
