"""The ends of document 001 for placed work: what is never retried, and what a job becomes."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState, TaskState
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld

PENDING, RUNNING, SUCCEEDED = TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED
FAILED, KILLED, WORKER_FAILED = TaskState.FAILED, TaskState.KILLED, TaskState.WORKER_FAILED
UNSCHEDULABLE = TaskState.UNSCHEDULABLE


async def succeed(cluster: PlacedWorld, job_id: int) -> None:
    task_id, worker = await cluster.placed(job_id)
    worker.succeed(task_id)
    await cluster.beat()


async def fail(cluster: PlacedWorld, job_id: int) -> None:
    task_id, worker = await cluster.placed(job_id)
    worker.fail(task_id)
    await cluster.beat()


async def fail_permanently(cluster: PlacedWorld, job_id: int) -> None:
    task_id, worker = await cluster.placed(job_id)
    worker.fail(task_id, error_class="PermanentError")
    await cluster.beat()


async def lose(cluster: PlacedWorld, job_id: int) -> None:
    task_id, worker = await cluster.placed(job_id)
    worker.drop(task_id)
    await cluster.beat()


async def kill(cluster: PlacedWorld, job_id: int) -> None:
    await cluster.placed(job_id)
    await cluster.cancel_job(job_id)


async def wait_in_vain(cluster: PlacedWorld, job_id: int) -> None:
    await cluster.pass_time(15)


ENDS: list[tuple[TaskState, Callable[[PlacedWorld, int], Awaitable[None]], dict[str, Any]]] = [
    (SUCCEEDED, succeed, {"max_retries_failure": 3}),
    (KILLED, kill, {"max_retries_failure": 3}),
    (UNSCHEDULABLE, wait_in_vain, {"max_retries_failure": 3, "scheduling_timeout": 10.0}),
    (FAILED, fail, {}),
    (FAILED, fail_permanently, {"max_retries_failure": 3}),
    (WORKER_FAILED, lose, {"max_retries_preemption": 0, "max_retries_failure": 3}),
]


@pytest.mark.parametrize(
    ("state", "end", "fields"), ENDS, ids=[f"{e[0].name}-{e[1].__name__}" for e in ENDS]
)
async def test_a_task_that_is_finished_never_changes_again(
    cluster: PlacedWorld, database: Database, *, state: TaskState, end: Any, fields: Any
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(**fields)
    await end(cluster, job_id)
    task_id = TaskId(job_id, 0)
    task = await cluster.task(task_id)
    assert (task.state, task.finished) == (state, True)
    story = await cluster.story(job_id)
    assert await cluster.job_state(job_id) == state
    assert await cluster.place() == {}
    await cluster.cancel_job(job_id)
    await cluster.pass_time(70)
    assert await cluster.place() == {}
    assert (await cluster.task(task_id)).state == state
    assert await cluster.story(job_id) == story
    assert await cluster.job_state(job_id) == state
    assert await cluster.count("leases") == 0
    await assert_audit_is_silent(database)


@pytest.mark.parametrize(
    ("fails", "counter"), [(fail, "failure_count"), (lose, "preemption_count")]
)
async def test_a_task_with_budget_left_is_not_finished_and_can_be_placed(
    cluster: PlacedWorld, database: Database, *, fails: Any, counter: str
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(max_retries_failure=1, max_retries_preemption=1)
    await fails(cluster, job_id)
    task = await cluster.task(TaskId(job_id, 0))
    assert (task.state, task.finished, getattr(task, counter)) == (PENDING, False, 1)
    assert TaskState(task.attempts[0]["state"]) in (FAILED, WORKER_FAILED), "its attempt has ended"
    assert await cluster.place() == {TaskId(job_id, 0): "w1"}
    await assert_audit_is_silent(database)


async def test_preemptions_do_not_count_towards_the_failures_of_a_job(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1")
    job_id = await cluster.submit(replicas=2, max_task_failures=0, max_retries_preemption=3)
    for _ in range(3):
        await cluster.place()
        await cluster.beat()
        for index in range(2):
            worker.drop(TaskId(job_id, index))
        await cluster.beat()
        await cluster.run_chores()
        assert await cluster.job_state(job_id) == RUNNING
    await cluster.place()
    await cluster.beat()
    for index in range(2):
        worker.succeed(TaskId(job_id, index))
    await cluster.beat()
    assert await cluster.job_state(job_id) == SUCCEEDED
    assert (await cluster.task(TaskId(job_id, 0))).preemption_count == 3
    await assert_audit_is_silent(database)


async def run_all(cluster: PlacedWorld, job_id: int, ends: list[str]) -> None:
    """Place all tasks of a job, and let each go its own way."""
    [worker] = await cluster.add(f"for-{job_id}", cpu=100.0)
    await cluster.place()
    await cluster.beat()
    for index, end in enumerate(ends):
        task_id = TaskId(job_id, index)
        if end == "build":
            worker.build(task_id)
        elif end == "start":
            worker.start(task_id)
        elif end != "wait":
            worker.end(task_id, end, **({"error": "boom"} if end == "failed" else {}))
    await cluster.beat()


DERIVED: list[tuple[JobState, list[str], dict[str, Any]]] = [
    (JobState.SUCCEEDED, ["succeeded", "succeeded", "succeeded"], {}),
    (JobState.FAILED, ["succeeded", "failed", "start"], {}),
    (JobState.FAILED, ["failed", "failed", "start"], {"max_task_failures": 1}),
    (JobState.RUNNING, ["succeeded", "failed", "start"], {"max_task_failures": 1}),
    (JobState.SUCCEEDED, ["succeeded", "failed", "succeeded"], {"max_task_failures": 1}),
    (JobState.WORKER_FAILED, ["succeeded", "worker_failed", "succeeded"], {}),
    (JobState.RUNNING, ["wait", "wait", "wait"], {}),
    (JobState.RUNNING, ["build", "wait", "wait"], {}),
    (JobState.RUNNING, ["succeeded", "start", "succeeded"], {}),
    (JobState.FAILED, ["failed", "worker_failed", "succeeded"], {}),
]


@pytest.mark.parametrize(("state", "ends", "fields"), DERIVED)
async def test_a_jobs_state_follows_from_the_counts_of_its_tasks(
    cluster: PlacedWorld, database: Database, *, state: JobState, ends: list[str], fields: Any
) -> None:
    job_id = await cluster.submit(replicas=3, max_retries_preemption=0, **fields)
    assert await cluster.job_state(job_id) == PENDING
    await run_all(cluster, job_id, ends)
    assert await cluster.job_state(job_id) == state
    await assert_audit_is_silent(database)


async def test_a_job_stays_running_while_its_task_waits_for_a_retry(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(max_retries_failure=1, backoff={"base": 10.0})
    await fail(cluster, job_id)
    assert (await cluster.task(TaskId(job_id, 0))).state == PENDING
    assert await cluster.job_state(job_id) == RUNNING
    assert await cluster.place() == {}, "the backoff is not over"
    await cluster.pass_time(20)
    assert await cluster.place() == {TaskId(job_id, 0): "w1"}
    await assert_audit_is_silent(database)


async def test_the_earlier_rule_wins(cluster: PlacedWorld, database: Database) -> None:
    """One task failed beyond the tolerance, one is unschedulable, one was killed: FAILED."""
    [worker] = await cluster.add("w1", cpu=2.0)
    job_id = await cluster.submit(replicas=4, max_task_failures=1, scheduling_timeout=20.0)
    await cluster.place()
    await cluster.beat()
    for index in range(2):
        worker.fail(TaskId(job_id, index))
    # Before anybody looks: two have failed, and two have waited too long.
    await cluster.clock.advance(25)
    await cluster.beat()
    await cluster.run_chores()
    assert await cluster.job_state(job_id) == FAILED
    assert (await cluster.states(job_id))[:2] == [FAILED, FAILED]
    assert set((await cluster.states(job_id))[2:]) <= {KILLED, UNSCHEDULABLE}
    await assert_audit_is_silent(database)
