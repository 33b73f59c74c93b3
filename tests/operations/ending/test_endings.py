"""The ends of attempts: retried within the budgets, finished, or sent to the dead letters."""

from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.operations.ending.endings import id_columns, lock_leases, lock_tasks
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


async def test_tasks_are_locked_in_order_and_unknown_ones_left_out(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=3)
    [mine] = await world.claim()
    wanted = [TaskId(job_id, 2), TaskId(job_id, 0), TaskId(job_id, 9), TaskId(job_id, 2)]
    async with ledger.database.transaction() as tx:
        assert list(await lock_tasks(tx, wanted)) == [TaskId(job_id, 0), TaskId(job_id, 2)]
        leases = await lock_leases(tx, wanted)
    assert list(leases) == [mine.task_id]
    assert leases[mine.task_id].lease_token == mine.lease_token


def test_ids_are_spread_into_columns() -> None:
    assert id_columns([(1, 2), (3, 4)]) == {"job_ids": [1, 3], "task_indexes": [2, 4]}
