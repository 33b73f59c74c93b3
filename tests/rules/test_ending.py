"""How attempts end, by whom they are ended, and what follows for single tasks and for gangs."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.model.work.attempts import LockedLease, LockedTask
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    BUILD_UNAVAILABLE,
    MISSING_TOOL,
    STATUSES,
    Failed,
    Killed,
    TaskDeadLettered,
    TaskFinished,
    TaskRetried,
    WorkerFailed,
)
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Coscheduling
from holdfast.rules.ending import (
    AttemptEnd,
    DecidedEnd,
    Judged,
    decide_ends,
    end_lost,
    end_overdue,
    end_reported,
    end_undelivered,
)
from holdfast.rules.outage import Watch
from holdfast.rules.retry import Counters, after_attempt
from tests.model.work.test_attempts import NOW, a_lease
from tests.rules.test_retry import some_terms

RUNNING, PENDING, KILLED = TaskState.RUNNING, TaskState.PENDING, TaskState.KILLED
SECOND = timedelta(seconds=1)
PAST, FUTURE = NOW - SECOND, NOW + SECOND
WATCHED = Watch(NOW)
OUTAGE = Watch(NOW, NOW - 60 * SECOND, PAST)
LOSS = AttemptEnd(WorkerFailed("worker lost"))
BOOM = AttemptEnd(Failed("boom"), actor="w1", reported=True)


def reported(lease: LockedLease, status: Any, **said: Any) -> Judged:
    fields = {"exit_code": None, "error": None, "error_class": None, "stage": None, "outage": None}
    return end_reported(lease, status, **fields | said)


def outcome_of(judged: Judged) -> Any:
    """Take the outcome of an attempt that ends."""
    assert isinstance(judged, AttemptEnd)
    return judged.outcome


def a_task(index: int = 0, *, state: int = RUNNING, **counts: int) -> LockedTask:
    return LockedTask(1, index, state, 0, 0, 0, 0)._replace(**counts)


def decided(
    ends: dict[int, AttemptEnd],
    tasks: list[LockedTask],
    leases: dict[int, LockedLease],
    **terms: Any,
) -> list[DecidedEnd]:
    """Decide about tasks of job 1."""
    return decide_ends(
        {TaskId(1, index): end for index, end in ends.items()},
        {task.id: task for task in tasks},
        {TaskId(1, index): lease for index, lease in leases.items()},
        terms_by_job={1: some_terms(**terms)},
        jitters={TaskId(1, index): 0.5 for index in ends},
    )


# What a worker reports


def test_a_report_of_an_attempt_that_has_ended_says_only_that_it_is_gone() -> None:
    for status in STATUSES:
        assert reported(a_lease(ending=True), status) == "gone"


def test_a_report_is_the_workers_own_word() -> None:
    judged = reported(a_lease(), "failed", error="boom", error_class="ValueError", exit_code=3)
    outcome = Failed("boom", error_class="ValueError", exit_code=3)
    assert judged == AttemptEnd(outcome, actor="w1", reported=True)
    assert outcome_of(reported(a_lease(), "failed", exit_code=3)) == Failed(
        "exit code 3", exit_code=3
    )
    assert outcome_of(reported(a_lease(), "failed")) == Failed("failed without an error")


def test_what_is_handed_back_costs_nothing() -> None:
    assert outcome_of(reported(a_lease(), "handed_back")) == WorkerFailed("handed back", free=True)


def test_who_has_asked_for_a_signal_waits_at_no_cost() -> None:
    judged = reported(a_lease(), "waiting", asked="approval")
    outcome = WorkerFailed("waits for signal approval", free=True)
    assert judged == AttemptEnd(outcome, actor="w1", reported=True, is_parked=True)
    unasked = reported(a_lease(), "waiting")
    assert outcome_of(unasked) == Failed(
        "it ended to wait, but has asked for no signal", "PermanentError"
    )


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, WorkerFailed("killed by its worker without being asked")),
        ({"cancelled": True}, Killed("cancelled", error="on signal", exit_code=143)),
        (
            {"cancelled": True, "cancel_reason": "enough"},
            Killed("enough", error="on signal", exit_code=143),
        ),
        (
            {"job_cancel_mode": "hard", "job_cancel_reason": "all of it"},
            Killed("all of it", error="on signal", exit_code=143),
        ),
    ],
)
def test_killed_is_what_was_asked_for(changes: Any, outcome: Any) -> None:
    said = reported(a_lease(**changes), "killed", error="on signal", exit_code=143)
    assert outcome_of(said) == outcome


@pytest.mark.parametrize(
    ("expires_at", "outage", "free"),
    [
        (NOW - 30 * SECOND, OUTAGE, True),
        (NOW - 30 * SECOND, WATCHED, False),
        (NOW - 90 * SECOND, OUTAGE, False),
        (FUTURE, Watch(NOW, PAST, NOW + 30 * SECOND), False),  # it has not run out yet
    ],
)
def test_a_loss_to_an_outage_is_free(expires_at: datetime, outage: Watch, free: bool) -> None:
    lease = a_lease(expires_at=expires_at)
    told = reported(lease, "worker_failed", error="gone", outage=(outage, NOW))
    assert outcome_of(told) == WorkerFailed("gone", free=free)
    lost = lose(lease, cause="gone", is_gone=False, outage=outage)
    assert lost == AttemptEnd(WorkerFailed("gone", free=free), released=False)


@pytest.mark.parametrize(
    ("error_class", "earlier", "expected"),
    [
        (MISSING_TOOL, [MISSING_TOOL] * 4, True),
        (MISSING_TOOL, [MISSING_TOOL] * 3, False),
        (MISSING_TOOL, [MISSING_TOOL] * 3 + [""], False),
        (BUILD_UNAVAILABLE, [BUILD_UNAVAILABLE] * 19, True),
        (BUILD_UNAVAILABLE, [BUILD_UNAVAILABLE] * 18, False),
        (BUILD_UNAVAILABLE, [BUILD_UNAVAILABLE] * 18 + [MISSING_TOOL], False),
        (MISSING_TOOL, [BUILD_UNAVAILABLE] * 19, False),
        (None, [MISSING_TOOL] * 4, False),
        (None, [], False),
    ],
)
def test_what_cannot_be_built_alike_everywhere_is_given_up(
    error_class: str | None, earlier: list[str], expected: bool
) -> None:
    said: dict[str, Any] = {"error_class": error_class, "earlier": earlier}
    lost = reported(a_lease(), "worker_failed", outage=(WATCHED, NOW), **said)
    outcome = outcome_of(lost)
    assert isinstance(outcome, WorkerFailed)
    assert (outcome.error_class, outcome.is_hopeless) == (error_class, expected)
    budget = some_terms(max_retries_preemption=100)
    verdict = after_attempt(Counters(), outcome, budget, job_is_live=True, jitter=0.5)
    assert isinstance(verdict, TaskRetried) is not expected


# Deadlines


def test_an_expired_lease_proves_that_the_process_is_gone() -> None:
    judged = end_overdue(a_lease(expires_at=PAST), some_terms(), watch=WATCHED, now=NOW)
    assert judged == AttemptEnd(WorkerFailed("lease expired"))
    ending = a_lease(expires_at=PAST, ending=True)
    assert end_overdue(ending, some_terms(), watch=WATCHED, now=NOW) == "gone"
    unseen = a_lease(expires_at=PAST, acknowledged=False)
    judged = end_overdue(unseen, some_terms(), watch=WATCHED, now=NOW)
    assert judged == AttemptEnd(WorkerFailed("lease expired", excused=True))


@pytest.mark.parametrize("ending", [False, True])
def test_after_an_outage_expiry_does_not_count_for_a_while(ending: bool) -> None:
    lease = a_lease(expires_at=PAST, ending=ending)
    waiting = Watch(NOW, NOW - 60 * SECOND, FUTURE)
    assert end_overdue(lease, some_terms(), watch=waiting, now=NOW) is None
    over = Watch(NOW, NOW - 60 * SECOND, NOW)
    judged = end_overdue(lease, some_terms(), watch=over, now=NOW)
    assert judged == ("gone" if ending else AttemptEnd(WorkerFailed("lease expired", free=True)))


def test_other_deadlines_end_the_attempt_and_not_its_lease() -> None:
    terms = some_terms(timeout=10.0)
    overrun = a_lease(expires_at=FUTURE, run_deadline_at=NOW)
    cancelled = overrun._replace(cancel_deadline_at=NOW, cancel_reason="enough")
    judged = end_overdue(overrun, terms, watch=WATCHED, now=NOW)
    text = "ran longer than its timeout of 10 s"
    assert judged == AttemptEnd(Failed(text, error_class="Timeout", stage=None), released=False)
    killing = some_terms(timeout=10.0, on_timeout="kill")
    judged = end_overdue(overrun, killing, watch=WATCHED, now=NOW)
    assert judged == AttemptEnd(Killed("timeout", error=text, timed_out=True), released=False)
    judged = end_overdue(cancelled, terms, watch=WATCHED, now=NOW)
    killed = Killed("enough", error="the grace of its cancel was over")
    assert judged == AttemptEnd(killed, released=False)


def test_what_is_not_due_is_left_alone() -> None:
    later = a_lease(expires_at=FUTURE, run_deadline_at=FUTURE, cancel_deadline_at=FUTURE)
    assert end_overdue(later, some_terms(), watch=WATCHED, now=NOW) is None
    ending = a_lease(expires_at=FUTURE, ending=True, run_deadline_at=PAST)
    assert end_overdue(ending, some_terms(), watch=WATCHED, now=NOW) is None


def lose(lease: LockedLease, *, outage: Watch = WATCHED, **changes: Any) -> Judged:
    """Judge a lease whose worker was lost."""
    loss: dict[str, Any] = {"cause": "lost", "is_gone": True, "has_crashed": False}
    return end_lost(lease, outage=(outage, NOW), **loss | changes)


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_a_lost_worker_had_is_gone_if_the_worker_is(is_gone: bool) -> None:
    judged = lose(a_lease(ending=True), is_gone=is_gone)
    assert judged == ("gone" if is_gone else None)
    judged = lose(a_lease(), is_gone=is_gone)
    assert judged == AttemptEnd(WorkerFailed("lost"), released=is_gone)


def test_what_a_crashed_worker_had_is_excused_unless_it_had_ended() -> None:
    assert outcome_of(lose(a_lease(), has_crashed=True)) == WorkerFailed("lost", excused=True)
    assert lose(a_lease(ending=True), has_crashed=True) == "gone"


# What follows


def test_each_task_goes_its_own_way() -> None:
    tasks = [a_task(0), a_task(1, failure_count=1), a_task(2)]
    leases = {index: a_lease(task_index=index) for index in range(3)}
    leases[2] = leases[2]._replace(cancelled=True)
    [first, second, third] = decided(
        {0: BOOM, 1: BOOM, 2: BOOM},
        tasks,
        leases,
        max_retries_failure=1,
        on_exhausted="dead_letter",
    )
    assert isinstance(first.verdict, TaskRetried)
    assert isinstance(second.verdict, TaskDeadLettered)
    assert third.verdict == TaskFinished(KILLED, 0, 0)
    assert third.end == BOOM._replace(outcome=Killed("cancelled", error="boom"))
    assert [item.task for item in (first, second, third)] == tasks


def test_nothing_is_retried_of_a_job_that_is_over() -> None:
    over = {0: a_lease(job_is_live=False)}
    [only] = decided({0: LOSS}, [a_task()], over, max_retries_preemption=5)
    assert only.verdict == TaskFinished(TaskState.WORKER_FAILED, 0, 1)


@pytest.mark.parametrize("gang", [None, Coscheduling()])
def test_a_dead_letter_by_an_operator_spends_nothing_and_ends_nobody_else(gang: Any) -> None:
    end = AttemptEnd(Killed("wrong"), actor="ann", released=False, is_dead_letter=True)
    tasks = [a_task(0, failure_count=1), a_task(1)]
    leases = {index: a_lease(task_index=index) for index in range(2)}
    [only] = decided({0: end}, tasks, leases, coscheduling=gang)
    verdict = TaskDeadLettered(KILLED, 1, 0, "policy_violation")
    assert only == DecidedEnd(tasks[0], end, verdict)


def test_the_siblings_of_a_lost_member_end_as_its_echo_and_are_not_released() -> None:
    tasks = [a_task(index) for index in range(2)] + [a_task(2, state=PENDING)]
    leases = {index: a_lease(task_index=index) for index in range(2)}
    [lost, echo] = decided(
        {1: LOSS}, tasks, leases, coscheduling=Coscheduling(), max_retries_preemption=1
    )
    assert (lost.task, lost.end) == (tasks[1], LOSS)
    assert (lost.verdict.preemption_count, echo.verdict.preemption_count) == (1, 0)
    sibling = WorkerFailed("a sibling failed: 1.1", free=True)
    assert (echo.task, echo.end) == (tasks[0], AttemptEnd(sibling, released=False))


def test_a_cancelled_member_needs_no_siblings() -> None:
    end = AttemptEnd(Killed("enough"), actor="ann", released=False)
    [only] = decided({1: end}, [a_task(1)], {1: a_lease(task_index=1)}, coscheduling=Coscheduling())
    assert only == DecidedEnd(a_task(1), end, TaskFinished(KILLED, 0, 0))


def test_what_never_arrived_ends_and_is_released_unless_its_worker_has_named_it() -> None:
    end = end_undelivered(a_lease(acknowledged=False))
    assert outcome_of(end) == WorkerFailed("it did not arrive on its worker", excused=True)
    assert isinstance(end, AttemptEnd)
    assert (end.released, end.reported) == (True, False)
    assert end_undelivered(a_lease(acknowledged=False, ending=True)) == "gone"
    for ending in (False, True):
        assert end_undelivered(a_lease(acknowledged=True, ending=ending)) is None
