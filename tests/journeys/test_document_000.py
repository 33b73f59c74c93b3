"""The tests that document 000 names, on a real ledger."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import LeaseConflict
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from tests.world import World

SUCCEEDED, FAILED, RUNNING = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.RUNNING
ASSIGNED, BUILDING, PENDING = TaskState.ASSIGNED, TaskState.BUILDING, TaskState.PENDING


async def current_attempt(world: World, task_id: TaskId) -> Any:
    """Read a task's last attempt, after making sure that the task stands where it stands."""
    task = await world.task(task_id)
    last = task.attempts[-1]
    assert last["attempt"] == task.attempt
    assert last["state"] == task.state
    return last


async def test_task_state_is_read_from_the_current_attempt(world: World) -> None:
    task_id = TaskId(await world.submit(), 0)
    task = await world.task(task_id)
    assert (task.state, task.attempts) == (PENDING, [])

    [claim] = await world.claim(worker="w1")
    attempt = await current_attempt(world, task_id)
    assert (attempt["state"], attempt["worker_id"]) == (ASSIGNED, "w1")
    assert (attempt["started_at"], attempt["finished_at"]) == (None, None)

    await world.report(claim, BUILDING)
    assert (await current_attempt(world, task_id))["state"] == BUILDING
    await world.start(claim)
    attempt = await current_attempt(world, task_id)
    assert attempt["state"] == RUNNING
    assert attempt["started_at"] >= attempt["created_at"]

    await world.succeed(claim)
    attempt = await current_attempt(world, task_id)
    assert (attempt["state"], attempt["worker_id"]) == (SUCCEEDED, "w1")
    assert attempt["finished_at"] >= attempt["started_at"]


async def test_a_retry_creates_a_new_attempt(world: World) -> None:
    task_id = TaskId(await world.submit(max_retries_failure=1, backoff={"base": 1.0}), 0)
    [first] = await world.claim(worker="w1")
    await world.start(first)
    await world.fail(first)

    task = await world.task(task_id)
    assert (task.state, task.finished, len(task.attempts)) == (PENDING, False, 1)
    ended = dict(task.attempts[0])
    assert (ended["state"], ended["error"], ended["worker_id"]) == (FAILED, "boom", "w1")

    await world.pass_time(2)
    [second] = await world.claim(worker="w2")
    assert (first.attempt, second.attempt) == (0, 1)
    assert first.lease_token != second.lease_token
    task = await world.task(task_id)
    assert dict(task.attempts[0]) == ended, "the old attempt stays as it was"
    assert task.attempts[1]["worker_id"] == "w2"
    assert task.state == ASSIGNED


async def test_job_state_aggregates_from_its_tasks(world: World) -> None:
    job_id = await world.submit(replicas=3)
    assert await world.job_state(job_id) == PENDING

    [first] = await world.claim()
    await world.start(first)
    assert await world.job_state(job_id) == RUNNING
    job = await world.job(job_id)
    assert (job["pending"], job["running"]) == (2, 1)

    await world.succeed(first)
    assert await world.job_state(job_id) == RUNNING
    for claim in await world.claim(count=3):
        await world.start(claim)
        await world.succeed(claim)
    assert await world.job_state(job_id) == SUCCEEDED
    job = await world.job(job_id)
    assert (job["succeeded"], job["exit_code"], job["error"]) == (3, 0, None)
    assert job["finished_at"] >= job["started_at"]
    assert "worker_id" not in dict(job)


async def test_one_failure_beyond_the_tolerance_fails_the_job_and_kills_the_rest(
    world: World,
) -> None:
    job_id = await world.submit(replicas=3, on_exhausted="fail")
    [first, second] = await world.claim(count=2)
    await world.start(first)
    await world.fail(first)
    assert await world.job_state(job_id) == FAILED
    await world.run_chores()
    states = [(await world.task(TaskId(job_id, index))).state for index in range(3)]
    assert states == [FAILED, TaskState.KILLED, TaskState.KILLED]
    answer = await world.succeed(second)
    assert not answer.accepted
    assert await world.job_state(job_id) == FAILED


async def test_stale_attempt_ids_are_refused(world: World) -> None:
    task_id = TaskId(await world.submit(max_retries_failure=1), 0)
    [first] = await world.claim(worker="w1")
    await world.start(first)
    await world.pass_time(35)
    [second] = await world.claim(worker="w2")
    await world.start(second)
    before = await world.task(task_id)
    story = await world.story(*task_id)

    for stale_call in (world.start, world.renew, world.succeed, world.fail):
        with pytest.raises(LeaseConflict):
            await stale_call(first)
    assert await world.task(task_id) == before
    assert await world.story(*task_id) == story
    await world.succeed(second)


async def test_a_failure_reported_again_after_the_retry_has_no_second_effect(world: World) -> None:
    task_id = TaskId(await world.submit(max_retries_failure=5, backoff={"base": 1.0}), 0)
    [first] = await world.claim(worker="w1")
    await world.start(first)
    answer = await world.fail(first)
    await world.pass_time(2)
    [second] = await world.claim(worker="w2")
    before = await world.task(task_id)

    assert await world.fail(first) == answer
    for stale_call in (world.start, world.renew):
        with pytest.raises(LeaseConflict):
            await stale_call(first)
    assert await world.task(task_id) == before
    await world.start(second)


@pytest.mark.parametrize("part", ["attempt", "lease_token"])
async def test_every_part_of_the_fence_has_to_match(world: World, part: str) -> None:
    task_id = TaskId(await world.submit(), 0)
    [claim] = await world.claim()
    wrong = claim._replace(attempt=1) if part == "attempt" else claim._replace(lease_token=uuid4())
    for call in (world.start, world.renew, world.succeed):
        with pytest.raises(LeaseConflict):
            await call(wrong)
    assert (await world.task(task_id)).state == ASSIGNED


async def test_full_lifecycle_with_a_retry(world: World) -> None:
    job_id = await world.submit(max_retries_failure=1, backoff={"base": 1.0})
    task_id = TaskId(job_id, 0)
    [first] = await world.claim(worker="w1")
    await world.start(first)
    assert (await current_attempt(world, task_id))["worker_id"] == "w1"
    assert await world.job_state(job_id) == RUNNING

    await world.fail(first)
    task = await world.task(task_id)
    assert (task.state, task.attempt, task.failure_count) == (PENDING, 1, 1)
    assert await world.job_state(job_id) == RUNNING, "it waits for its retry"

    await world.pass_time(2)
    [second] = await world.claim(worker="w2")
    await world.start(second)
    await world.succeed(second)
    task = await world.task(task_id)
    assert [(row["worker_id"], row["state"]) for row in task.attempts] == [
        ("w1", FAILED),
        ("w2", SUCCEEDED),
    ]
    assert (task.state, task.finished) == (SUCCEEDED, True)
    assert await world.job_state(job_id) == SUCCEEDED
