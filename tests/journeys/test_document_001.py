"""The task states of document 001 for placed work: every transition, budget and end."""

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld

PENDING, ASSIGNED, BUILDING, RUNNING = (
    TaskState.PENDING, TaskState.ASSIGNED, TaskState.BUILDING, TaskState.RUNNING,
)  # fmt: skip
SUCCEEDED, FAILED, KILLED = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED
WORKER_FAILED, UNSCHEDULABLE = TaskState.WORKER_FAILED, TaskState.UNSCHEDULABLE


async def test_the_way_from_pending_to_succeeded(cluster: PlacedWorld, database: Database) -> None:
    job_id = await cluster.submit()
    task_id = TaskId(job_id, 0)
    assert (await cluster.task(task_id)).state == PENDING
    [worker] = await cluster.add("w1")

    assert await cluster.place() == {task_id: "w1"}
    task = await cluster.task(task_id)
    assert (task.state, task.attempts[0]["worker_id"]) == (ASSIGNED, "w1")
    assert worker.running() == [], "it hears of it with the next heartbeat"
    await cluster.beat()
    assert worker.running() == [str(task_id)]
    assert (await cluster.task(task_id)).state == ASSIGNED, "the worker has not begun"

    worker.build(task_id)
    await cluster.beat()
    assert (await cluster.task(task_id)).state == BUILDING
    worker.start(task_id)
    await cluster.beat()
    task = await cluster.task(task_id)
    assert task.state == RUNNING
    assert task.attempts[0]["started_at"] > task.attempts[0]["created_at"]

    worker.succeed(task_id, {"loss": 0.1})
    await cluster.beat()
    task = await cluster.task(task_id)
    last = task.attempts[0]
    assert (task.state, task.finished, last["exit_code"]) == (SUCCEEDED, True, 0)
    assert last["finished_at"] >= last["started_at"]
    assert await cluster.story(job_id) == ["placed", "building", "started", "succeeded"]
    assert await cluster.story(job_id, -1) == ["submitted", "started", "succeeded"]
    await assert_audit_is_silent(database)


async def test_an_assigned_task_uses_up_its_workers_resources(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", cpu=4.0)
    first = await cluster.submit(resources={"cpu": 3})
    second = await cluster.submit(resources={"cpu": 2})
    assert await cluster.place() == {TaskId(first, 0): "w1"}
    assert await cluster.place() == {}
    await cluster.beat()
    cluster.workers["w1"].succeed(TaskId(first, 0))
    await cluster.beat()
    assert await cluster.place() == {TaskId(second, 0): "w1"}
    await assert_audit_is_silent(database)


async def test_building_twice_and_reports_behind_the_recorded_state_change_nothing(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1")
    task_id = TaskId(await cluster.submit(), 0)
    await cluster.place()
    await cluster.beat()
    worker.build(task_id)
    await cluster.beat()
    for state in ("BUILDING", "ASSIGNED", "BUILDING"):
        worker.held[str(task_id), 0].state = state
        await cluster.beat()
        assert (await cluster.task(task_id)).state == BUILDING
    worker.start(task_id)
    await cluster.beat()
    worker.build(task_id)
    await cluster.beat()
    assert (await cluster.task(task_id)).state == RUNNING
    assert await cluster.story(*task_id) == ["placed", "building", "started"]
    await assert_audit_is_silent(database)


async def test_no_worker_has_more_than_eight_tasks_that_have_not_started(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1", cpu=100.0)
    job_id = await cluster.submit(inputs=list(range(20)))
    assert len(await cluster.place()) == 8
    await cluster.beat()
    for index in range(8):
        worker.build(TaskId(job_id, index))
    await cluster.beat()
    assert await cluster.place() == {}
    for index in range(3):
        worker.start(TaskId(job_id, index))
    await cluster.beat()
    assert len(await cluster.place()) == 3
    await assert_audit_is_silent(database)


async def test_a_failure_with_budget_left_is_a_new_attempt_and_the_last_one_is_final(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(max_retries_failure=2)
    for failures in (1, 2):
        task_id, worker = await cluster.placed(job_id)
        worker.fail(task_id, exit_code=3)
        await cluster.beat()
        task = await cluster.task(task_id)
        assert (task.state, task.finished, task.failure_count) == (PENDING, False, failures)
        assert task.attempts[-1]["state"] == FAILED
        assert await cluster.lease(task_id) is None, "its worker's resources are free"
        assert await cluster.job_state(job_id) == RUNNING
    task_id, worker = await cluster.placed(job_id)
    worker.fail(task_id, "the last straw", exit_code=4)
    await cluster.beat()
    task = await cluster.task(task_id)
    assert (task.state, task.finished, task.failure_count) == (FAILED, True, 3)
    last = task.attempts[-1]
    assert (last["error"], last["exit_code"], last["attempt"]) == ("the last straw", 4, 2)
    job = await cluster.job(job_id)
    assert (job["state"], job["error"], job["exit_code"]) == (FAILED, "the last straw", 4)
    told = ["placed", "started", "failed"]
    assert await cluster.story(job_id) == [*told, "retried", *told, "retried", *told]
    await assert_audit_is_silent(database)


async def test_a_cancel_kills_what_waits_and_what_runs(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1", cpu=1.0)
    job_id = await cluster.submit(replicas=2, max_retries_failure=5)
    running, _ = await cluster.placed(job_id)
    await cluster.cancel_job(job_id)
    assert await cluster.states(job_id) == [KILLED, KILLED]
    assert await cluster.job_state(job_id) == KILLED
    assert worker.running() == [str(running)], "nobody has told it yet"
    lease = await cluster.lease(running)
    assert lease is not None, "what it uses is still booked"
    assert lease["ending"]
    await cluster.beat()
    [killed] = worker.last_call.tasks_to_kill
    assert (killed.task_id, worker.running()) == (str(running), [])
    assert await cluster.lease(running) is None
    assert await cluster.place() == {}, "nothing is retried"
    await assert_audit_is_silent(database)


async def test_a_job_that_has_failed_kills_its_other_tasks(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1", cpu=2.0)
    job_id = await cluster.submit(replicas=3)
    failing, _ = await cluster.placed(job_id)
    worker.fail(failing)
    await cluster.beat()
    assert await cluster.job_state(job_id) == FAILED
    await cluster.run_chores()
    assert await cluster.states(job_id) == [FAILED, KILLED, KILLED]
    await cluster.beat()
    assert worker.running() == []
    assert await cluster.count("leases") == 0
    await assert_audit_is_silent(database)


async def test_the_end_of_a_parent_kills_its_children_and_theirs(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1")
    parent = await cluster.submit()
    child = await cluster.submit_child(parent, queue=None)
    grandchild = await cluster.submit_child(child, queue=None)
    await cluster.place()
    await cluster.beat()
    assert len(worker.running()) == 3
    await cluster.cancel_job(parent)
    await cluster.run_chores()
    for job_id in (parent, child, grandchild):
        assert await cluster.states(job_id) == [KILLED]
    await cluster.beat()
    assert worker.running() == []
    assert await cluster.count("leases") == 0
    await assert_audit_is_silent(database)


async def test_children_of_a_parent_that_succeeded_live_on(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1")
    parent = await cluster.submit()
    child = await cluster.submit_child(parent, queue=None)
    await cluster.place()
    await cluster.beat()
    worker.succeed(TaskId(parent, 0))
    await cluster.pass_time(5)
    assert await cluster.job_state(child) == RUNNING
    assert worker.running() == [f"{child}.0"]
    await assert_audit_is_silent(database)


async def test_a_run_that_takes_too_long_is_killed_and_never_retried(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(timeout=40.0, max_retries_failure=5)
    task_id, worker = await cluster.placed(job_id)
    await cluster.pass_time(15)
    assert (await cluster.task(task_id)).state == RUNNING
    await cluster.pass_time(30)
    task = await cluster.task(task_id)
    assert (task.state, task.finished, task.failure_count) == (KILLED, True, 0)
    await cluster.beat()
    assert worker.running() == []
    assert await cluster.lease(task_id) is None
    await assert_audit_is_silent(database)


async def test_the_death_of_a_worker_costs_a_preemption_and_the_task_starts_elsewhere(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", "w2")
    job_id = await cluster.submit()
    task_id, worker = await cluster.placed(job_id)
    [other] = [found for found in cluster.workers.values() if found is not worker]
    await cluster.die(worker)
    task = await cluster.task(task_id)
    assert (task.state, task.preemption_count, task.failure_count) == (PENDING, 1, 0)
    lost = task.attempts[0]
    assert (lost["state"], lost["worker_id"]) == (WORKER_FAILED, worker.worker_id)
    assert await cluster.place() == {}, "its process may still run: its lease has not ended"
    await cluster.pass_time(65)
    assert await cluster.place() == {task_id: other.worker_id}
    await cluster.beat()
    other.succeed(task_id)
    await cluster.beat()
    assert await cluster.job_state(job_id) == SUCCEEDED
    told = ["placed", "started", "worker_failed", "retried", "placed", "started", "succeeded"]
    assert await cluster.story(job_id) == told
    await assert_audit_is_silent(database)


async def test_the_preemption_budget_runs_out_by_itself(
    cluster: PlacedWorld, database: Database
) -> None:
    job_id = await cluster.submit(max_retries_preemption=1, max_retries_failure=7)
    for losses in (1, 2):
        await cluster.add(f"w{losses}")
        task_id, worker = await cluster.placed(job_id)
        await cluster.die(worker)
        assert (await cluster.task(task_id)).preemption_count == losses
        await cluster.pass_time(65)
    task = await cluster.task(task_id)
    assert (task.state, task.finished, task.failure_count) == (WORKER_FAILED, True, 0)
    assert await cluster.job_state(job_id) == WORKER_FAILED
    await assert_audit_is_silent(database)


async def test_the_two_budgets_do_not_touch_each_other(
    cluster: PlacedWorld, database: Database
) -> None:
    job_id = await cluster.submit(max_retries_failure=1, max_retries_preemption=1)
    await cluster.add("w1")
    task_id, worker = await cluster.placed(job_id)
    worker.fail(task_id)
    await cluster.beat()
    task_id, worker = await cluster.placed(job_id)
    worker.drop(task_id)
    await cluster.beat()
    task = await cluster.task(task_id)
    assert (task.state, task.failure_count, task.preemption_count) == (PENDING, 1, 1)
    task_id, worker = await cluster.placed(job_id)
    worker.succeed(task_id)
    await cluster.beat()
    task = await cluster.task(task_id)
    ends = [attempt["state"] for attempt in task.attempts]
    assert ends == [FAILED, WORKER_FAILED, SUCCEEDED]
    await assert_audit_is_silent(database)


async def test_the_defaults_are_no_retry_after_a_failure_and_a_hundred_after_a_loss(
    cluster: PlacedWorld,
) -> None:
    job_id = await cluster.submit()
    [row] = await cluster.clock.fetch(
        "select spec::text from holdfast.jobs where job_id = $1", job_id
    )
    assert '"max_retries_failure": 0' in row[0]
    assert '"max_retries_preemption": 100' in row[0]


async def test_a_gang_member_that_fails_for_good_takes_its_siblings_along(
    cluster: PlacedWorld, database: Database
) -> None:
    workers = await cluster.add("w1", "w2", "w3", cpu=1.0)
    job_id = await cluster.submit(replicas=3, coscheduling={})
    placed = await cluster.place()
    assert sorted(placed.values()) == ["w1", "w2", "w3"], "all at once"
    await cluster.beat()
    for task_id, worker_id in placed.items():
        cluster.workers[worker_id].start(task_id)
    await cluster.beat()
    cluster.workers[placed[TaskId(job_id, 1)]].fail(TaskId(job_id, 1), "rank 1 broke")
    await cluster.beat()
    assert await cluster.states(job_id) == [WORKER_FAILED, FAILED, WORKER_FAILED]
    job = await cluster.job(job_id)
    assert (job["state"], job["error"]) == (FAILED, "rank 1 broke")
    await cluster.beat()
    assert [worker.running() for worker in workers] == [[], [], []], "no host hangs"
    assert await cluster.count("leases") == 0
    assert await cluster.place() == {}
    await assert_audit_is_silent(database)


async def test_a_task_nobody_has_room_for_makes_its_job_unschedulable(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1", cpu=1.0)
    job_id = await cluster.submit(replicas=3, scheduling_timeout=30.0)
    running, _ = await cluster.placed(job_id)
    await cluster.pass_time(20)
    assert await cluster.states(job_id) == [RUNNING, PENDING, PENDING]
    await cluster.pass_time(15)
    assert await cluster.states(job_id) == [KILLED, UNSCHEDULABLE, UNSCHEDULABLE]
    assert await cluster.job_state(job_id) == UNSCHEDULABLE
    await cluster.beat()
    assert worker.running() == []
    assert await cluster.lease(running) is None
    assert await cluster.story(job_id, 1) == ["unschedulable"]
    await assert_audit_is_silent(database)
