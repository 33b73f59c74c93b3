"""Budgets, backoff and dead letters: what becomes of a task whose attempt has ended."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.model.submitting.spec import Backoff, TaskTerms
from holdfast.model.work.outcomes import (
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
from holdfast.model.work.states import TaskState
from holdfast.rules.retry import (
    FREE_LOSSES_MAX,
    Counters,
    after_attempt,
    as_recorded,
    dead_letter_by_operator,
)

BACKOFF = Backoff(base=1.0, factor=2.0, ceiling=10.0)
EVEN = 0.5  # the jitter that leaves a delay as it is
FAILED, WORKER_FAILED = TaskState.FAILED, TaskState.WORKER_FAILED
FINAL = ("PermanentError", "ValidationError", "ParseError", "RefusedByWorker")
LOST = WorkerFailed("lease expired")
UNSEEN = WorkerFailed("never reported", excused=True)
HANDED_BACK = WorkerFailed("handed back", free=True)


def some_terms(**changes: Any) -> TaskTerms:
    fields: dict[str, Any] = {
        "queue": "q",
        "priority": 0,
        "max_retries_failure": 0,
        "max_retries_preemption": 0,
        "backoff": BACKOFF,
        "on_exhausted": "fail",
        "scheduling_timeout": None,
        "timeout": None,
        "on_timeout": "fail",
        "lease": 30.0,
        "grace": 30.0,
        "type": "work",
    }
    return TaskTerms(**fields | changes)


def after(
    outcome: Outcome,
    counters: Counters | None = None,
    *,
    job_is_live: bool = True,
    jitter: float = EVEN,
    **terms: Any,
) -> TaskVerdict:
    return after_attempt(
        counters or Counters(), outcome, some_terms(**terms), job_is_live=job_is_live, jitter=jitter
    )


def a_failure(error_class: str = "TransientError") -> Failed:
    return Failed("boom", error_class)


# Success and kills


@pytest.mark.parametrize("job_is_live", [True, False])
@pytest.mark.parametrize("on_exhausted", ["fail", "dead_letter"])
def test_success_finishes_the_task_and_keeps_its_counters(
    job_is_live: bool, on_exhausted: str
) -> None:
    verdict = after(
        Succeeded(), Counters(3, 2, 1), job_is_live=job_is_live, on_exhausted=on_exhausted
    )
    assert verdict == TaskFinished(TaskState.SUCCEEDED, 3, 2)


@pytest.mark.parametrize("on_exhausted", ["fail", "dead_letter"])
def test_a_killed_task_is_never_retried_and_never_charged(on_exhausted: str) -> None:
    verdict = after(
        Killed("timeout", timed_out=True),
        Counters(1, 1),
        max_retries_failure=9,
        max_retries_preemption=9,
        on_exhausted=on_exhausted,
    )
    assert verdict == TaskFinished(TaskState.KILLED, 1, 1)


# The failure budget


@pytest.mark.parametrize(
    ("failures_before", "retries_max", "retried"),
    [(0, 0, False), (0, 1, True), (1, 1, False), (1, 2, True), (2, 2, False), (7, 2, False)],
)
def test_a_failure_is_retried_while_the_count_is_within_the_budget(
    failures_before: int, retries_max: int, retried: bool
) -> None:
    verdict = after(a_failure(), Counters(failures_before), max_retries_failure=retries_max)
    assert isinstance(verdict, TaskRetried) == retried
    assert verdict.failure_count == failures_before + 1
    assert verdict.state == FAILED


def test_a_failure_leaves_the_other_budget_alone() -> None:
    verdict = after(a_failure(), Counters(0, 4), max_retries_failure=1)
    assert verdict == TaskRetried(FAILED, 1, 4, 0, delay=1.0)


@pytest.mark.parametrize("error_class", FINAL)
def test_an_error_that_no_retry_can_cure_finishes_with_budget_left(error_class: str) -> None:
    verdict = after(a_failure(error_class), max_retries_failure=5)
    assert verdict == TaskFinished(FAILED, 1, 0)


@pytest.mark.parametrize(
    "error_class", ["TransientError", "DependencyUnavailable", "Timeout", "KeyError", "", "Exit"]
)
def test_any_other_error_is_transient(error_class: str) -> None:
    assert isinstance(after(a_failure(error_class), max_retries_failure=1), TaskRetried)


@pytest.mark.parametrize(
    ("error_class", "reason_code"),
    [
        ("TransientError", "exhausted_retries"),
        ("KeyError", "exhausted_retries"),
        ("PermanentError", "exhausted_retries"),
        ("ValidationError", "validation_failed"),
        ("ParseError", "parse_error"),
        ("Timeout", "timeout"),
        ("DependencyUnavailable", "dependency_unavailable"),
        ("RefusedByWorker", "policy_violation"),
    ],
)
def test_a_dead_letter_says_why_the_last_failure_was_the_last(
    error_class: str, reason_code: str
) -> None:
    verdict = after(
        a_failure(error_class), Counters(2, 1), max_retries_failure=2, on_exhausted="dead_letter"
    )
    assert verdict == TaskDeadLettered(FAILED, 3, 1, reason_code)  # type: ignore[arg-type]


@pytest.mark.parametrize("error_class", FINAL)
def test_an_incurable_error_is_dead_lettered_with_budget_left(error_class: str) -> None:
    verdict = after(a_failure(error_class), max_retries_failure=9, on_exhausted="dead_letter")
    assert isinstance(verdict, TaskDeadLettered)
    assert verdict.failure_count == 1


@pytest.mark.parametrize("error_class", ["TransientError", "DependencyUnavailable", "Timeout"])
def test_a_curable_error_is_not_dead_lettered_while_budget_is_left(error_class: str) -> None:
    verdict = after(a_failure(error_class), max_retries_failure=1, on_exhausted="dead_letter")
    assert isinstance(verdict, TaskRetried)


# The preemption budget


@pytest.mark.parametrize(
    ("losses_before", "retries_max", "retried"),
    [(0, 0, False), (0, 1, True), (1, 1, False), (4, 5, True), (5, 5, False), (99, 100, True)],
)
def test_a_loss_is_retried_while_the_count_is_within_the_budget(
    losses_before: int, retries_max: int, retried: bool
) -> None:
    verdict = after(LOST, Counters(0, losses_before), max_retries_preemption=retries_max)
    assert isinstance(verdict, TaskRetried) == retried
    assert verdict.preemption_count == losses_before + 1
    assert verdict.state == WORKER_FAILED


def test_a_loss_leaves_the_failure_budget_alone() -> None:
    verdict = after(LOST, Counters(4, 0), max_retries_preemption=1)
    assert verdict == TaskRetried(WORKER_FAILED, 4, 1, 0, delay=0.0)


def test_the_first_preemption_is_retried_at_once_and_later_ones_wait() -> None:
    delays = []
    for losses in range(5):
        verdict = after(LOST, Counters(0, losses), max_retries_preemption=9)
        assert isinstance(verdict, TaskRetried)
        delays.append(verdict.delay)
    assert delays == [0.0, 2.0, 4.0, 8.0, 10.0]


def test_exhausted_by_losses_the_task_stays_worker_failed_or_is_dead_lettered() -> None:
    counters = Counters(2, 5)
    assert after(LOST, counters, max_retries_preemption=5) == TaskFinished(WORKER_FAILED, 2, 6)
    assert after(
        LOST, counters, max_retries_preemption=5, on_exhausted="dead_letter"
    ) == TaskDeadLettered(WORKER_FAILED, 2, 6, "infrastructure_failure")


# Free losses


def test_a_free_loss_costs_nothing_and_is_retried_at_once_even_without_any_budget() -> None:
    verdict = after(HANDED_BACK, Counters(1, 1), on_exhausted="dead_letter")
    assert verdict == TaskRetried(WORKER_FAILED, 1, 1, 0, delay=0.0)


def test_five_unseen_losses_in_a_row_are_free_and_then_every_one_is_charged() -> None:
    counters = Counters()
    charged = []
    for _ in range(8):
        verdict = after(UNSEEN, counters, max_retries_preemption=100)
        assert isinstance(verdict, TaskRetried)
        charged.append(verdict.preemption_count - counters.preemption_count)
        counters = Counters(
            verdict.failure_count, verdict.preemption_count, verdict.free_loss_count
        )
    assert charged == [0, 0, 0, 0, 0, 1, 1, 1]
    assert FREE_LOSSES_MAX == 5


def test_an_unseen_loss_beyond_the_fifth_can_exhaust_the_budget() -> None:
    verdict = after(UNSEEN, Counters(0, 0, 5), max_retries_preemption=0)
    assert verdict == TaskFinished(WORKER_FAILED, 0, 1)


@pytest.mark.parametrize("breaker", [LOST, HANDED_BACK, a_failure()])
@pytest.mark.parametrize(("queue", "kept"), [(None, 0), ("q", 5)])
def test_another_end_breaks_the_row_of_excused_losses_of_placed_work_alone(
    breaker: Outcome, queue: str | None, kept: int
) -> None:
    """A claimed task that was in a crash is known for good."""
    budgets: Any = {"max_retries_preemption": 9, "max_retries_failure": 9}
    verdict = after(breaker, Counters(0, 1, 5), queue=queue, **budgets)
    assert isinstance(verdict, TaskRetried)
    assert verdict.free_loss_count == kept


def test_an_unseen_loss_in_an_outage_is_free_however_many_there_were() -> None:
    loss = WorkerFailed("lease expired", free=True, excused=True)
    verdict = after(loss, Counters(0, 0, 50))
    assert isinstance(verdict, TaskRetried)
    assert (verdict.preemption_count, verdict.delay) == (0, 0.0)


# Jobs that are over or being cancelled


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (a_failure(), TaskFinished(FAILED, 1, 0)),
        (LOST, TaskFinished(WORKER_FAILED, 0, 1)),
        (HANDED_BACK, TaskFinished(WORKER_FAILED, 0, 0)),
        (UNSEEN, TaskFinished(WORKER_FAILED, 0, 0)),
        (Succeeded(), TaskFinished(TaskState.SUCCEEDED, 0, 0)),
    ],
)
@pytest.mark.parametrize("on_exhausted", ["fail", "dead_letter"])
def test_nothing_is_retried_once_the_job_is_not_live(
    outcome: Outcome, expected: TaskFinished, on_exhausted: str
) -> None:
    verdict = after(
        outcome,
        job_is_live=False,
        max_retries_failure=9,
        max_retries_preemption=9,
        on_exhausted=on_exhausted,
    )
    assert verdict == expected


@pytest.mark.parametrize(
    ("outcome", "reason_code"),
    [(a_failure("ValidationError"), "validation_failed"), (LOST, "infrastructure_failure")],
)
def test_a_spent_budget_dead_letters_even_when_the_job_is_not_live(
    outcome: Outcome, reason_code: str
) -> None:
    verdict = after(outcome, job_is_live=False, on_exhausted="dead_letter")
    assert isinstance(verdict, TaskDeadLettered)
    assert verdict.reason_code == reason_code


@pytest.mark.parametrize(
    ("outcome", "recorded"),
    [
        (Succeeded("42"), Succeeded("42")),
        (
            Failed("boom", exit_code=3),
            Killed("cancelled", error="boom", exit_code=3),
        ),
        (LOST, Killed("cancelled", error="lease expired")),
        (HANDED_BACK, Killed("cancelled", error="handed back")),
        (Killed("timeout", timed_out=True), Killed("timeout", timed_out=True)),
    ],
)
def test_after_a_soft_cancel_any_end_but_success_is_recorded_as_killed(
    outcome: Outcome, recorded: Outcome
) -> None:
    assert as_recorded(outcome, "soft") == recorded


@pytest.mark.parametrize("cancel", [None, "hard"])
@pytest.mark.parametrize("outcome", [Succeeded(), a_failure(), LOST, HANDED_BACK, Killed("x")])
def test_without_a_soft_cancel_an_attempt_keeps_its_own_outcome(
    outcome: Outcome, cancel: Any
) -> None:
    assert as_recorded(outcome, cancel) is outcome


def test_an_end_after_a_soft_cancel_charges_nothing() -> None:
    verdict = after(as_recorded(a_failure(), "soft"), Counters(1, 1), max_retries_failure=9)
    assert verdict == TaskFinished(TaskState.KILLED, 1, 1)


def test_an_operators_dead_letter_call_kills_and_keeps_the_counters() -> None:
    verdict = dead_letter_by_operator(Counters(2, 3, 4))
    assert verdict == TaskDeadLettered(TaskState.KILLED, 2, 3, "policy_violation")


def test_the_delay_after_a_failure_comes_from_the_count_that_was_just_raised() -> None:
    verdict = after(a_failure(), Counters(2, 0), max_retries_failure=9, jitter=0.0)
    assert isinstance(verdict, TaskRetried)
    assert verdict.delay == 2.0


# Everything together

counts = some.integers(0, 20)
outcomes = some.sampled_from(
    [Succeeded(), Killed("x"), LOST, UNSEEN, HANDED_BACK]
    + [a_failure(name) for name in ("TransientError", "PermanentError", "Timeout", "ParseError")]
)


@given(
    counters=some.builds(Counters, counts, counts, counts),
    outcome=outcomes,
    failures_max=counts,
    losses_max=counts,
    on_exhausted=some.sampled_from(["fail", "dead_letter"]),
    job_is_live=some.booleans(),
)
def test_counters_never_shrink_and_no_retry_goes_beyond_a_budget(
    counters: Counters,
    outcome: Outcome,
    failures_max: int,
    losses_max: int,
    on_exhausted: str,
    job_is_live: bool,
) -> None:
    verdict = after(
        outcome,
        counters,
        job_is_live=job_is_live,
        max_retries_failure=failures_max,
        max_retries_preemption=losses_max,
        on_exhausted=on_exhausted,
    )
    raised = (
        verdict.failure_count - counters.failure_count,
        verdict.preemption_count - counters.preemption_count,
    )
    assert raised in {(0, 0), (1, 0), (0, 1)}
    if isinstance(verdict, TaskRetried):
        assert job_is_live
        assert raised != (1, 0) or verdict.failure_count <= failures_max
        assert raised != (0, 1) or verdict.preemption_count <= losses_max
    if isinstance(verdict, TaskDeadLettered):
        assert on_exhausted == "dead_letter"


@pytest.mark.parametrize("on_exhausted", ["fail", "dead_letter"])
@pytest.mark.parametrize(
    ("outcome", "counters"),
    [
        (a_failure(), Counters(failure_count=3)),
        (a_failure("PermanentError"), Counters()),
        (a_failure("ValidationError"), Counters()),
        (a_failure("Timeout"), Counters(failure_count=3)),
        (LOST, Counters(preemption_count=5)),
    ],
)
def test_whatever_ends_a_compensation_is_a_dead_letter_of_its_own_kind(
    outcome: Outcome, counters: Counters, on_exhausted: str
) -> None:
    budgets: Any = {"max_retries_failure": 3, "max_retries_preemption": 5}
    budgets |= {"on_exhausted": on_exhausted, "is_compensation": True}
    verdict = after(outcome, counters, **budgets)
    assert isinstance(verdict, TaskDeadLettered)
    assert verdict.reason_code == "compensation_failed"
