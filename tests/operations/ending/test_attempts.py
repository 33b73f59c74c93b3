"""The ends of attempts: retried, finished or dead-lettered; released once their process is gone."""

from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from tests.world import World

FAILED, DEAD = TaskState.FAILED, TaskState.DEAD_LETTERED


async def reason_of(world: World, job_id: int) -> str:
    """Read why a job's only dead letter is one."""
    [letter] = await world.dead_letters(job_id=job_id)
    return letter.reason_code


async def test_failures_are_retried_while_the_budget_lasts(world: World) -> None:
    job_id = await world.submit(max_retries_failure=2, backoff={"base": 0.0}, on_exhausted="fail")
    for attempt in range(3):
        [mine] = await world.claim()
        assert (mine.attempt, mine.failure_count) == (attempt, attempt)
        await world.fail(mine)
        await world.run_chores()
    task = await world.task(TaskId(job_id, 0))
    assert (task.state, task.attempt, task.failure_count, task.finished) == (FAILED, 2, 3, True)
    assert [attempt["state"] for attempt in task.attempts] == [FAILED] * 3
    round_trip = ["claimed", "started", "failed", "retried"]
    assert await world.story(job_id) == round_trip * 2 + round_trip[:3]


async def test_each_budget_is_its_own(world: World) -> None:
    await world.submit(max_retries_failure=1, max_retries_preemption=1, backoff={"base": 0.0})
    for status, counts in (("failed", (1, 0)), ("worker_failed", (1, 1)), ("failed", (2, 1))):
        [mine] = await world.claim()
        await world.complete(mine, status)
        await world.run_chores()
        task = await world.task(mine.task_id)
        assert (task.failure_count, task.preemption_count) == counts
    assert task.state == DEAD


@pytest.mark.parametrize(
    ("error_class", "stage", "reason"),
    [
        ("TransientError", "exec", "exhausted_retries"),
        ("PermanentError", "exec", "exhausted_retries"),
        ("ValidationError", "exec", "validation_failed"),
        ("ParseError", "input", "parse_error"),
        ("DependencyUnavailable", "exec", "dependency_unavailable"),
    ],
)
async def test_the_last_failure_gives_the_dead_letter_its_reason(
    ledger: Ledger, world: World, error_class: str, stage: Any, reason: str
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.complete(mine, "failed", error="boom", error_class=error_class, stage=stage)
    assert await reason_of(world, job_id) == reason
    assert (await world.story(job_id))[-2:] == ["failed", "dead_lettered"]
    assert await world.job_state(job_id) == DEAD


@pytest.mark.parametrize("error_class", ["PermanentError", "ValidationError", "ParseError"])
async def test_an_error_that_is_not_retryable_spends_the_whole_budget(
    world: World, error_class: str
) -> None:
    job_id = await world.submit(max_retries_failure=9, on_exhausted="fail")
    [mine] = await world.claim()
    await world.fail(mine, error_class)
    task = await world.task(TaskId(job_id, 0))
    assert (task.state, task.finished, task.failure_count) == (FAILED, True, 1)


async def test_a_last_failure_by_timeout_is_a_dead_letter_by_timeout(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(timeout=10.0, on_timeout="fail")
    [mine] = await world.claim()
    await world.start(mine)
    await world.pass_time(11)
    assert await reason_of(world, job_id) == "timeout"
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]


async def test_a_spent_preemption_budget_is_a_dead_letter_by_infrastructure(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(max_retries_preemption=0)
    await world.claim()
    await world.pass_time(35)
    assert await reason_of(world, job_id) == "infrastructure_failure"
    assert (await world.story(job_id))[-2:] == ["worker_failed", "dead_lettered"]


async def test_a_dead_letter_keeps_what_one_needs_to_understand_it(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(
        inputs=[{"n": 1}], max_retries_failure=1, backoff={"base": 0.0}, correlation_id="c1"
    )
    for error in ("first", "second"):
        [mine] = await world.claim(worker="w7")
        await world.complete(mine, "failed", error=error, error_class="ValueError", stage="output")
        await world.run_chores()
    [letter] = await world.dead_letters(job_id=job_id)
    kept = [
        getattr(letter, field)
        for field in ("stage", "error_class", "last_error", "attempts", "last_owner", "input")
    ]
    assert kept == ["output", "ValueError", "second", 2, "w7", '{"n":1}']
    assert (letter.correlation_id, letter.queue) == ("c1", "q")
    assert letter.last_lease_expires_at == mine.lease_expires_at


async def test_attempts_are_never_reset_by_a_retry(world: World) -> None:
    await world.submit(max_retries_failure=1, backoff={"base": 0.0})
    [first] = await world.claim(worker="w1")
    await world.fail(first)
    before = (await world.task(first.task_id)).attempts[0]
    await world.run_chores()
    [second] = await world.claim(worker="w2")
    await world.succeed(second)
    assert (await world.task(first.task_id)).attempts[0] == before


async def test_a_task_that_waits_for_its_retry_has_no_worker_and_keeps_its_last_error(
    world: World,
) -> None:
    await world.submit(max_retries_failure=1)
    [mine] = await world.claim()
    await world.fail(mine)
    task = await world.task(mine.task_id)
    assert task.state == TaskState.PENDING
    assert await world.lease(mine.task_id) is None
    assert task.attempts[-1]["error"] == "boom"
    [retried] = await world.clock.fetch(
        "select cause, payload from holdfast.events where type = 'retried'"
    )
    assert retried["cause"] == "TransientError"


# The second step: until its release, a lease bars the next attempt


async def timed_out(world: World, **fields: Any) -> Claim:
    """Run a task into its timeout; the attempt has failed, its lease is ending."""
    await world.submit(timeout=10.0, max_retries_failure=1, lease=120.0, **fields)
    [mine] = await world.claim()
    await world.start(mine)
    await world.pass_time(15)
    lease = await world.lease(mine.task_id)
    assert lease is not None
    assert lease["ending"]
    return mine


async def test_a_retry_waits_until_its_last_lease_is_released(world: World) -> None:
    mine = await timed_out(world, backoff={"base": 0.0})
    await world.pass_time(20)
    task = await world.task(mine.task_id)
    assert (task.state, task.attempt) == (TaskState.PENDING, 1)
    assert (await world.count("waiting"), await world.count("ready")) == (1, 0)
    assert await world.claim(worker="w2") == []
    assert not (await world.complete(mine, "killed")).accepted
    assert (await world.count("waiting"), await world.count("ready")) == (0, 1)
    [again] = await world.claim(worker="w2")
    assert again.attempt == 1


async def test_a_release_before_the_backoff_is_over_leaves_the_task_waiting(world: World) -> None:
    mine = await timed_out(world, backoff={"base": 60.0})
    await world.complete(mine, "killed")
    assert await world.claim() == []
    await world.pass_time(91)
    [again] = await world.claim()
    assert again.attempt == 1


async def test_a_lease_that_runs_out_is_released_by_the_reaper(world: World) -> None:
    mine = await timed_out(world, backoff={"base": 0.0})
    await world.pass_time(100)
    assert await world.lease(mine.task_id) is not None
    await world.pass_time(10)
    assert await world.lease(mine.task_id) is None
    attempt = (await world.task(mine.task_id)).attempts[0]
    assert attempt["released_at"] > attempt["finished_at"]
    [again] = await world.claim()
    assert again.attempt == 1


async def test_a_release_writes_no_event_and_moves_no_task(world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id)
    before = await world.dump()
    await world.complete(mine, "killed")
    after = await world.dump()
    for table in ("jobs", "tasks", "events", "ready", "waiting"):
        assert after[table] == before[table]
    assert (await world.task(TaskId(job_id, 0))).attempts[0]["released_at"] is not None


async def test_the_released_attempt_remembers_its_last_lease(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id)
    await world.clock.advance(10)
    renewed = await world.renew(mine)
    await world.complete(mine, "killed")
    [attempt] = (await world.task(mine.task_id)).attempts
    assert attempt["last_lease_expires_at"] == renewed.lease_expires_at
