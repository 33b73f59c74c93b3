"""The table of tasks through its functions."""

from datetime import timedelta

from holdfast.model.work.attempts import LockedTask
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Transaction
from holdfast.store.tables.work.attempts import end_attempts
from holdfast.store.tables.work.ready import take_ready
from holdfast.store.tables.work.tasks import (
    Assignment,
    NewTasks,
    RetriedTask,
    assign_tasks,
    give_up_scheduling,
    has_unstopped_task,
    insert_tasks,
    kill_pending_tasks,
    lock_live_tasks,
    lock_tasks,
    lock_tasks_of_jobs,
    measure_inputs,
    read_inputs,
    retry_tasks,
    start_building,
    start_running,
)
from tests.store.tables.work.test_attempts import an_end
from tests.world import World, fence_of

HALF_A_MINUTE = timedelta(seconds=30)


async def test_tasks_are_locked_by_id_by_job_and_by_stretch(world: World, tx: Transaction) -> None:
    job_id = await world.submit([1, 2, 3])
    first, second, third = (TaskId(job_id, index) for index in range(3))
    locked = await lock_tasks(tx, [second, first, first, TaskId(job_id, 9)])
    assert locked == {
        first: LockedTask(job_id, 0, TaskState.PENDING, 0, 0, 0, 0),
        second: LockedTask(job_id, 1, TaskState.PENDING, 0, 0, 0, 0),
    }
    assert [task.id for task in await lock_tasks_of_jobs(tx, [job_id])] == [first, second, third]
    stretch = await lock_live_tasks(tx, job_id, first_index=1, end_index=2)
    assert [task.id for task in stretch] == [second]
    assert await has_unstopped_task(tx, job_id, first_index=1, end_index=2)
    assert not await has_unstopped_task(tx, job_id, first_index=3, end_index=9)


async def test_new_tasks_are_stored_apart_from_their_line(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    now = await tx.now()
    await insert_tasks(tx, NewTasks([job_id], [1], [False], ["1"]), eligible_at=[now], now=now)
    assert [task.task_index for task in await lock_tasks_of_jobs(tx, [job_id])] == [0, 1]
    assert [task.task_index for task in await take_ready(tx, ["q"], 10)] == [0]


async def test_a_task_is_assigned_with_a_lease(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    task_id = TaskId(job_id, 0)
    await take_ready(tx, ["q"], 1)
    [lease] = await assign_tasks(tx, [Assignment(task_id, "w1", HALF_A_MINUTE, None, "key")])
    assert (lease.job_id, lease.task_index) == task_id
    assert lease.expires_at - await tx.now() <= HALF_A_MINUTE
    [mine] = await lock_tasks_of_jobs(tx, [job_id])
    assert mine.state == TaskState.ASSIGNED


async def test_a_start_names_the_state_before(world: World, tx: Transaction) -> None:
    await world.submit()
    [mine] = await world.claim()
    started = await start_building(tx, [fence_of(mine)])
    assert started == [(*mine.task_id, mine.lease_token, TaskState.ASSIGNED)]
    [running] = await start_running(tx, [fence_of(mine)])
    assert running.before == TaskState.BUILDING
    assert await start_running(tx, [fence_of(mine)]) == []


async def test_a_task_whose_worker_was_lost_waits_for_its_next_attempt(
    world: World, tx: Transaction
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await end_attempts(tx, [an_end(mine.task_id, TaskState.WORKER_FAILED, finished=False)])
    await retry_tasks(tx, [RetriedTask(mine.task_id, HALF_A_MINUTE, 1, "lost")])
    [task] = await lock_tasks_of_jobs(tx, [job_id])
    assert (task.state, task.attempt, task.free_loss_count) == (TaskState.PENDING, 1, 1)


async def test_pending_tasks_are_killed_or_given_up(world: World, tx: Transaction) -> None:
    job_id = await world.submit([1, 2])
    await kill_pending_tasks(tx, [TaskId(job_id, 0)], actor="operator", cause="enough")
    await give_up_scheduling(tx, {TaskId(job_id, 1): "no worker"})
    states = [task.state for task in await lock_tasks_of_jobs(tx, [job_id])]
    assert states == [TaskState.KILLED, TaskState.UNSCHEDULABLE]


async def test_inputs_are_measured_and_read(world: World, tx: Transaction) -> None:
    job_id = await world.submit(["one", "two"])
    assert await measure_inputs(tx, job_id, only_unsuccessful=True) == (2, 10)
    page = await read_inputs(tx, job_id, only_unsuccessful=False, after_index=0, batch_max=5)
    assert page == [(1, '"two"')]
