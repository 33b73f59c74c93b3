"""The tests that document 000 names, for placed work."""

from uuid import uuid4

import pytest

from holdfast.errors import LeaseConflict
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.report import Report, report
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld

SUCCEEDED, FAILED, RUNNING = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.RUNNING
ASSIGNED, PENDING, WORKER_FAILED = TaskState.ASSIGNED, TaskState.PENDING, TaskState.WORKER_FAILED


async def test_task_state_is_read_from_the_current_attempt(cluster: PlacedWorld) -> None:
    task_id = TaskId(await cluster.submit(), 0)
    [worker] = await cluster.add("w1")
    assert (await cluster.task(task_id)).attempts == []
    await cluster.place()
    await cluster.beat()
    for step, state in ((worker.build, TaskState.BUILDING), (worker.start, RUNNING)):
        step(task_id)
        await cluster.beat()
        task = await cluster.task(task_id)
        [attempt] = task.attempts
        assert (task.state, attempt["state"], attempt["worker_id"]) == (state, state, "w1")
    worker.succeed(task_id)
    await cluster.beat()
    task = await cluster.task(task_id)
    assert (task.state, task.attempts[0]["state"]) == (SUCCEEDED, SUCCEEDED)


async def test_full_lifecycle_with_a_retry(cluster: PlacedWorld, database: Database) -> None:
    await cluster.add("w1", "w2", cpu=1.0)
    job_id = await cluster.submit(max_retries_failure=1, backoff={"base": 4.0})
    assert await cluster.job_state(job_id) == PENDING
    task_id, first = await cluster.placed(job_id)
    assert await cluster.job_state(job_id) == RUNNING

    first.fail(task_id, "crash")
    await cluster.beat()
    task = await cluster.task(task_id)
    assert (task.state, task.attempt, task.failure_count, task.finished) == (PENDING, 1, 1, False)
    ended = dict(task.attempts[0])
    assert (ended["state"], ended["error"], ended["worker_id"]) == (
        FAILED, "crash", first.worker_id,
    )  # fmt: skip
    assert await cluster.job_state(job_id) == RUNNING
    assert await cluster.place() == {}, "the backoff is not over"

    await cluster.pass_time(10)
    _, second = await cluster.placed(job_id)
    assert second is not first, "a retry goes elsewhere, if it can"
    second.succeed(task_id, 42)
    await cluster.beat()
    task = await cluster.task(task_id)
    assert dict(task.attempts[0]) == ended, "the old attempt stays as it was"
    assert [row["worker_id"] for row in task.attempts] == [first.worker_id, second.worker_id]
    assert (task.state, task.finished) == (SUCCEEDED, True)
    assert await cluster.job_state(job_id) == SUCCEEDED
    told = ["placed", "started", "failed", "retried", "placed", "started", "succeeded"]
    assert await cluster.story(job_id) == told
    assert await cluster.story(job_id, -1) == ["submitted", "started", "succeeded"]
    await assert_audit_is_silent(database)


async def test_job_state_aggregates_from_its_tasks(cluster: PlacedWorld) -> None:
    [worker] = await cluster.add("w1", cpu=2.0)
    job_id = await cluster.submit(replicas=3)
    assert await cluster.job_state(job_id) == PENDING
    await cluster.place()
    job = await cluster.job(job_id)
    assert (job["state"], job["pending"], job["assigned"]) == (RUNNING, 1, 2)
    assert "worker_id" not in dict(job)
    await cluster.beat()
    for index in range(2):
        worker.succeed(TaskId(job_id, index))
    await cluster.beat()
    assert await cluster.job_state(job_id) == RUNNING
    task_id, worker = await cluster.placed(job_id, 2)
    worker.succeed(task_id)
    await cluster.beat()
    assert await cluster.job_state(job_id) == SUCCEEDED


async def test_stale_attempts_are_refused(cluster: PlacedWorld, database: Database) -> None:
    await cluster.add("w1", "w2")
    job_id = await cluster.submit()
    task_id, first = await cluster.placed(job_id)
    stale = await cluster.fence(task_id)
    await cluster.die(first)
    await cluster.pass_time(65)
    _, second = await cluster.placed(job_id)
    assert second is not first
    before = await cluster.task(task_id)
    strangers = [
        stale,
        stale._replace(attempt=1),
        (await cluster.fence(task_id))._replace(lease_token=uuid4()),
    ]
    for fence in strangers:
        assert await answers_of(cluster, fence) == [LeaseConflict, LeaseConflict]
    assert await cluster.task(task_id) == before
    second.succeed(task_id)
    await cluster.beat()
    assert await cluster.job_state(job_id) == SUCCEEDED
    await assert_audit_is_silent(database)


async def answers_of(cluster: PlacedWorld, fence: Fence) -> list[type]:
    """Try to report and to complete an attempt."""
    [started] = await report(cluster.ledger, [Report(fence, RUNNING)])
    [ended] = await complete(cluster.ledger, [Completion(fence, "succeeded")])
    return [type(started), type(ended)]


@pytest.mark.parametrize("silence", [False, True])
async def test_an_attempt_that_was_lost_stays_readable(cluster: PlacedWorld, silence: bool) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit()
    task_id, worker = await cluster.placed(job_id)
    if silence:
        await cluster.die(worker)
    else:
        worker.drop(task_id)
        await cluster.beat()
    [lost] = (await cluster.task(task_id)).attempts
    assert (lost["state"], lost["is_worker_failure"]) == (WORKER_FAILED, True)
    assert lost["error"].startswith("worker lost: 3 heart" if silence else "missing on its worker")
    assert (await cluster.task(task_id)).state == PENDING
