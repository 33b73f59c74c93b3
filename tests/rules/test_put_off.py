"""Tasks that their own code puts off: how long they wait, and what that costs."""

from holdfast.model.work.outcomes import Failed, PutOff, TaskFinished, TaskRetried
from holdfast.rules.retry import FREE_PUT_OFFS_MAX, Counters, bound_put_off
from tests.rules.test_retry import FAILED, LOST, after


def a_put_off(*, free: bool) -> Failed:
    return Failed("not now", "RetryAfter", put_off=PutOff(90_000, free))


def test_a_task_that_is_put_off_waits_as_long_as_it_says_at_the_cost_of_a_retry() -> None:
    verdict = after(a_put_off(free=False), max_retries_failure=1)
    assert verdict == TaskRetried(FAILED, 1, 0, 0, 90.0)
    assert after(a_put_off(free=False), Counters(1), max_retries_failure=1) == TaskFinished(
        FAILED, 2, 0
    )


def test_a_task_that_is_put_off_at_no_cost_keeps_its_budget() -> None:
    assert after(a_put_off(free=True), Counters(3, 1)) == TaskRetried(FAILED, 3, 1, 0, 90.0)


def test_a_cancelled_job_puts_nothing_off() -> None:
    assert after(a_put_off(free=True), job_is_live=False) == TaskFinished(FAILED, 0, 0)


def test_it_costs_a_retry_once_so_many_attempts_have_cost_nothing() -> None:
    free = a_put_off(free=True)
    used = Counters(2, 3)
    last = FREE_PUT_OFFS_MAX + 5 - 1
    assert bound_put_off(free, used, last) == free
    assert bound_put_off(free, used, last + 1) == a_put_off(free=False)
    assert bound_put_off(LOST, used, last + 1) == LOST
