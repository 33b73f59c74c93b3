"""A gang's budget, price and fate: what follows for all when some members' attempts end."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.model.submitting.spec import Backoff, TaskTerms
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import (
    Failed,
    Killed,
    Outcome,
    PutOff,
    Succeeded,
    TaskDeadLettered,
    TaskFinished,
    TaskRetried,
    WorkerFailed,
)
from holdfast.model.work.states import LIVE_STATES, OPEN_STATES, TaskState
from holdfast.model.workers.resources import Coscheduling
from holdfast.rules.gang import Member, MemberEnding, after_round
from holdfast.rules.retry import FREE_LOSSES_MAX, Counters

EVEN = 0.5  # the jitter that leaves a delay as it is
PENDING, RUNNING, SUCCEEDED = TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED
FAILED, KILLED = TaskState.FAILED, TaskState.KILLED
WORKER_FAILED, DEAD = TaskState.WORKER_FAILED, TaskState.DEAD_LETTERED
BOOM = Failed("boom")
WRONG = Failed("wrong", error_class="ValidationError")
LOST = WorkerFailed("lease expired")
UNSEEN = WorkerFailed("worker lost", excused=True)
HANDED_BACK = WorkerFailed("handed back", free=True)
TIMEOUT = Killed("timeout", timed_out=True)


def some_terms(**changes: Any) -> TaskTerms:
    fields: dict[str, Any] = {
        "queue": None,
        "priority": 0,
        "max_retries_failure": 0,
        "max_retries_preemption": 0,
        "backoff": Backoff(base=1.0, factor=2.0, ceiling=100.0),
        "on_exhausted": "fail",
        "scheduling_timeout": None,
        "timeout": None,
        "on_timeout": "kill",
        "lease": 60.0,
        "grace": 30.0,
        "type": "work",
        "coscheduling": Coscheduling(),
    }
    return TaskTerms(**fields | changes)


def running(count: int, **changes: Any) -> dict[int, Member]:
    """Make members with an attempt under way; `m1=...` replaces one."""
    members = {index: Member(RUNNING, Counters()) for index in range(count)}
    return members | {int(name[1:]): member for name, member in changes.items()}


def after(
    members: dict[int, Member],
    outcomes: dict[int, Outcome],
    *,
    job_is_live: bool = True,
    **changes: Any,
) -> dict[int, MemberEnding]:
    ends = after_round(
        {TaskId(7, index): member for index, member in members.items()},
        {TaskId(7, index): outcome for index, outcome in outcomes.items()},
        some_terms(**changes),
        job_is_live=job_is_live,
        jitter=EVEN,
    )
    return {task_id.task_index: end for task_id, end in ends.items()}


def test_one_failure_restarts_everyone_at_the_price_of_one() -> None:
    ends = after(running(3), {1: BOOM}, max_retries_failure=1)
    echo = WorkerFailed("a sibling failed: 7.1", free=True)
    assert list(ends) == [1, 0, 2]
    assert ends[1] == MemberEnding(BOOM, TaskRetried(FAILED, 1, 0, 0, 1.0))
    free = TaskRetried(WORKER_FAILED, 0, 0, 0, 1.0)
    assert ends[0] == ends[2] == MemberEnding(echo, free)


@pytest.mark.parametrize("state", sorted(OPEN_STATES))
def test_members_that_have_not_begun_restart_with_the_others(state: int) -> None:
    ends = after(running(2, m1=Member(state, Counters())), {0: BOOM}, max_retries_failure=1)
    assert isinstance(ends[1].verdict, TaskRetried)


def test_the_backoff_follows_from_the_summed_count() -> None:
    members = running(3, m0=Member(RUNNING, Counters(2)), m2=Member(SUCCEEDED, Counters(1)))
    ends = after(members, {1: BOOM}, max_retries_failure=4)
    assert [end.verdict for end in ends.values()] == [
        TaskRetried(FAILED, 1, 0, 0, 8.0),
        TaskRetried(WORKER_FAILED, 2, 0, 0, 8.0),
    ]


def test_the_first_preemption_of_a_gang_restarts_it_at_once_and_the_second_waits() -> None:
    first = after(running(2), {0: LOST}, max_retries_preemption=9)
    assert {end.verdict for end in first.values()} == {
        TaskRetried(WORKER_FAILED, 0, 1, 0, 0.0),
        TaskRetried(WORKER_FAILED, 0, 0, 0, 0.0),
    }
    members = running(2, m1=Member(RUNNING, Counters(0, 1)))
    second = after(members, {0: LOST}, max_retries_preemption=9)
    assert second[0].verdict == TaskRetried(WORKER_FAILED, 0, 1, 0, 2.0)


def test_the_members_counters_are_added_up_and_compared() -> None:
    members = running(3, m0=Member(RUNNING, Counters(1)), m1=Member(SUCCEEDED, Counters(1)))
    ends = after(members, {2: BOOM}, max_retries_failure=2)
    assert {index: end.verdict for index, end in ends.items()} == {
        2: TaskFinished(FAILED, 1, 0),
        0: TaskFinished(WORKER_FAILED, 1, 0),
    }


@pytest.mark.parametrize(
    ("outcomes", "culprit"),
    [
        ({0: LOST, 1: BOOM}, 1),
        ({0: BOOM, 1: WRONG}, 1),
        ({1: BOOM, 0: BOOM}, 0),
        ({0: UNSEEN, 1: LOST}, 1),
        ({0: HANDED_BACK, 1: UNSEEN}, 1),
        ({0: TIMEOUT, 1: HANDED_BACK}, 1),
    ],
)
def test_the_gravest_loss_is_to_blame(outcomes: dict[int, Outcome], culprit: int) -> None:
    ends = after(running(3), outcomes, max_retries_failure=9, max_retries_preemption=9)
    assert next(iter(ends)) == culprit
    assert ends[2].outcome == WorkerFailed(f"a sibling failed: 7.{culprit}", free=True)


def test_each_attempt_keeps_its_own_end_and_only_one_is_charged() -> None:
    ends = after(running(3), {0: LOST, 1: BOOM, 2: BOOM}, max_retries_failure=1)
    assert {index: end.verdict for index, end in ends.items()} == {
        1: TaskRetried(FAILED, 1, 0, 0, 1.0),
        0: TaskRetried(WORKER_FAILED, 0, 0, 0, 1.0),
        2: TaskRetried(FAILED, 0, 0, 0, 1.0),
    }


def test_losses_that_nobody_saw_are_free_five_times_in_a_row_whoever_they_hit() -> None:
    members = running(2)
    for loss in range(FREE_LOSSES_MAX):
        ends = after(members, {loss % 2: UNSEEN})
        assert all(isinstance(end.verdict, TaskRetried) for end in ends.values())
        members = {index: _next(end) for index, end in ends.items()}
    assert [members[index].counters for index in range(2)] == [(0, 0, 3), (0, 0, 2)]
    assert after(members, {0: UNSEEN})[0].verdict == TaskFinished(WORKER_FAILED, 0, 1)


def test_any_other_round_breaks_the_row_of_free_losses() -> None:
    members = running(2, m1=Member(RUNNING, Counters(0, 0, 5)))
    ends = after(members, {0: LOST}, max_retries_preemption=1)
    assert [_next(end).counters.free_loss_count for end in ends.values()] == [0, 0]


def test_what_a_succeeded_member_lost_unseen_no_longer_counts() -> None:
    members = running(2, m1=Member(SUCCEEDED, Counters(0, 0, 5)))
    assert after(members, {0: UNSEEN})[0].verdict == TaskRetried(WORKER_FAILED, 0, 0, 1, 0.0)


def test_whoever_spent_the_budget_is_a_dead_letter_and_echoes_are_not() -> None:
    ends = after(running(4), {0: BOOM, 1: WRONG, 2: LOST}, on_exhausted="dead_letter")
    assert {index: end.verdict for index, end in ends.items()} == {
        1: TaskDeadLettered(FAILED, 1, 0, "validation_failed"),
        0: TaskDeadLettered(FAILED, 0, 0, "exhausted_retries"),
        2: TaskFinished(WORKER_FAILED, 0, 0),
        3: TaskFinished(WORKER_FAILED, 0, 0),
    }


def test_a_spent_preemption_budget_makes_a_dead_letter_too() -> None:
    ends = after(running(2), {0: LOST}, on_exhausted="dead_letter")
    assert ends[0].verdict == TaskDeadLettered(WORKER_FAILED, 0, 1, "infrastructure_failure")
    assert ends[1].verdict == TaskFinished(WORKER_FAILED, 0, 0)


@pytest.mark.parametrize("outcome", [TIMEOUT, Succeeded()])
def test_an_end_that_is_no_loss_leaves_the_siblings_alone(outcome: Outcome) -> None:
    ends = after(running(3), {0: outcome}, max_retries_failure=1)
    assert list(ends) == [0]
    assert isinstance(ends[0].verdict, TaskFinished)


def test_a_gang_whose_job_is_not_live_is_left_to_the_sweep() -> None:
    ends = after(running(3), {0: BOOM}, job_is_live=False, max_retries_failure=9)
    assert ends == {0: MemberEnding(BOOM, TaskFinished(FAILED, 1, 0))}


def test_after_a_soft_cancel_every_loss_is_killed_and_costs_nothing() -> None:
    members = {index: Member(RUNNING, Counters(), "soft") for index in range(2)}
    ends = after(members, {0: BOOM}, job_is_live=False, max_retries_failure=9)
    assert ends == {0: MemberEnding(Killed("cancelled", "boom"), TaskFinished(KILLED, 0, 0))}


def test_a_sibling_that_was_cancelled_ends_killed_and_not_retried() -> None:
    members = running(2, m1=Member(RUNNING, Counters(), "soft"))
    ends = after(members, {0: BOOM}, max_retries_failure=9)
    assert ends[1].verdict == TaskFinished(KILLED, 0, 0)


@pytest.mark.parametrize("lost", [FAILED, KILLED, WORKER_FAILED, DEAD, TaskState.UNSCHEDULABLE])
def test_a_gang_that_lost_a_member_for_good_never_restarts_and_pays_no_more(
    lost: TaskState,
) -> None:
    members = running(3, m0=Member(lost, Counters()))
    ends = after(members, {1: BOOM}, max_retries_failure=9)
    assert {index: end.verdict for index, end in ends.items()} == {
        1: TaskFinished(FAILED, 0, 0),
        2: TaskFinished(WORKER_FAILED, 0, 0),
    }


def _next(end: MemberEnding) -> Member:
    """Place a member again that is to be retried; otherwise it stays where it ended."""
    match end.verdict:
        case TaskRetried(_, failures, preemptions, free_losses, _):
            return Member(RUNNING, Counters(failures, preemptions, free_losses))
        case TaskDeadLettered(_, failures, preemptions, _):
            return Member(DEAD, Counters(failures, preemptions))
        case TaskFinished(state, failures, preemptions):
            return Member(state, Counters(failures, preemptions))


def _spent(members: dict[int, Member]) -> tuple[int, int]:
    counters = [member.counters for member in members.values()]
    return sum(c.failure_count for c in counters), sum(c.preemption_count for c in counters)


SOME_OUTCOMES = some.sampled_from([BOOM, WRONG, LOST, UNSEEN, HANDED_BACK, TIMEOUT, Succeeded()])


@given(
    size=some.integers(1, 6),
    rounds=some.lists(
        some.dictionaries(some.integers(0, 5), SOME_OUTCOMES, min_size=1), max_size=12
    ),
    failures_max=some.integers(0, 3),
    preemptions_max=some.integers(0, 3),
    on_exhausted=some.sampled_from(["fail", "dead_letter"]),
)
def test_no_story_of_a_gang_overspends_or_tears_it_apart(
    size: int,
    rounds: list[dict[int, Outcome]],
    failures_max: int,
    preemptions_max: int,
    on_exhausted: str,
) -> None:
    members = running(size)
    budget: dict[str, Any] = {
        "max_retries_failure": failures_max,
        "max_retries_preemption": preemptions_max,
    }
    for drawn in rounds:
        open_members = {i for i, member in members.items() if member.state in OPEN_STATES}
        outcomes = {i: outcome for i, outcome in drawn.items() if i in open_members}
        if not outcomes:
            continue
        ends = after(members, outcomes, on_exhausted=on_exhausted, **budget)
        following = members | {index: _next(end) for index, end in ends.items()}
        assert ends.keys() <= open_members, "a member that had finished was touched"
        before, now = _spent(members), _spent(following)
        assert sum(now) - sum(before) in (0, 1), "a round costs one unit at most"
        assert now[0] <= failures_max + 1
        assert now[1] <= preemptions_max + 1
        retried = [end.verdict for end in ends.values() if isinstance(end.verdict, TaskRetried)]
        if any(isinstance(outcome, Failed | WorkerFailed) for outcome in outcomes.values()):
            assert ends.keys() == open_members, "a loss concerns everyone who runs"
            losses = [e for e in ends.values() if not isinstance(e.outcome, Succeeded | Killed)]
            assert len(retried) in (0, len(losses)), "all restart, or none"
        else:
            assert ends.keys() == outcomes.keys()
            assert not retried
        assert len({verdict.delay for verdict in retried}) <= 1
        if retried:
            assert now[0] <= failures_max
            assert now[1] <= preemptions_max
            assert WRONG not in outcomes.values()
        for index, outcome in outcomes.items():
            assert ends[index].outcome == outcome
        members = following


@given(
    states=some.lists(some.sampled_from(list(TaskState)), min_size=1, max_size=6),
    outcome=SOME_OUTCOMES,
    job_is_live=some.booleans(),
)
def test_whatever_the_state_only_open_attempts_end(
    states: list[TaskState], outcome: Outcome, job_is_live: bool
) -> None:
    members = {index: Member(state, Counters()) for index, state in enumerate([RUNNING, *states])}
    ends = after(members, {0: outcome}, job_is_live=job_is_live, max_retries_failure=1)
    assert all(members[index].state in OPEN_STATES for index in ends)
    if not job_is_live:
        assert list(ends) == [0]
    if any(isinstance(end.verdict, TaskRetried) for end in ends.values()):
        assert job_is_live
        assert all(m.state in LIVE_STATES | {SUCCEEDED} for m in members.values())


def test_a_member_that_is_put_off_at_no_cost_puts_off_the_whole_gang() -> None:
    later = Failed("not now", "RetryAfter", put_off=PutOff(90_000, free=True))
    members = {TaskId(1, index): member for index, member in running(2).items()}
    decided = after_round(
        members, {TaskId(1, 0): later}, some_terms(), job_is_live=True, jitter=EVEN
    )
    verdicts = [ending.verdict for ending in decided.values()]
    assert verdicts == [
        TaskRetried(FAILED, 0, 0, 0, 90.0),
        TaskRetried(WORKER_FAILED, 0, 0, 0, 90.0),
    ]
