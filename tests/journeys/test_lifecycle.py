"""The life of claimed work, told from beginning to end."""

import pytest

from holdfast.errors import LeaseConflict
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from tests.world import World


async def test_full_lifecycle_with_a_retry(world: World) -> None:
    job_id = await world.submit(max_retries_failure=1, backoff={"base": 1.0})
    task_id = TaskId(job_id, 0)
    [first] = await world.claim(worker="w1")
    await world.start(first)
    assert await world.job_state(job_id) == TaskState.RUNNING
    await world.fail(first)
    task = await world.task(task_id)
    assert (task.state, task.attempt, task.failure_count) == (TaskState.PENDING, 1, 1)
    assert [attempt["state"] for attempt in task.attempts] == [TaskState.FAILED]
    assert await world.claim(worker="w2") == []
    await world.pass_time(2)
    [second] = await world.claim(worker="w2")
    assert second.attempt == 1
    with pytest.raises(LeaseConflict):
        await world.start(first)
    await world.start(second)
    await world.succeed(second, "42")
    task = await world.task(task_id)
    assert [attempt["worker_id"] for attempt in task.attempts] == ["w1", "w2"]
    assert (task.state, task.finished) == (TaskState.SUCCEEDED, True)
    assert await world.job_state(job_id) == TaskState.SUCCEEDED
    assert await world.story(job_id) == [
        "claimed", "started", "failed", "retried", "claimed", "started", "succeeded",
    ]  # fmt: skip
    assert await world.story(job_id, -1) == ["submitted", "started", "succeeded"]


async def test_a_lease_that_runs_out_sends_the_task_to_another_worker(world: World) -> None:
    job_id = await world.submit()
    [first] = await world.claim(worker="w1")
    await world.start(first)
    await world.pass_time(35)
    [second] = await world.claim(worker="w2")
    assert (second.attempt, second.preemption_count) == (1, 1)
    with pytest.raises(LeaseConflict):
        await world.succeed(first)
    with pytest.raises(LeaseConflict):
        await world.renew(first)
    await world.succeed(second)
    assert await world.job_state(job_id) == TaskState.SUCCEEDED
