"""The tables of tasks in line through their functions."""

from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.cancel import cancel_job
from holdfast.store.database import Database, Transaction
from holdfast.store.tables.work.ready import (
    ReadyStretch,
    ReadyTask,
    Stretch,
    WaitingStretch,
    drop_stale,
    drop_stale_heads,
    explain_unclaimable,
    feed_ready,
    insert_ready,
    insert_waiting,
    leave_line,
    list_overdue,
    list_queues_with_work,
    list_waited,
    lock_due,
    notify_ready,
    promote_waiting,
    take_overdue,
    take_ready,
    take_ready_by_id,
)
from tests.world import World

MINUTE = timedelta(minutes=1)


async def test_tasks_are_taken_from_queues_or_by_id(world: World, tx: Transaction) -> None:
    job_id = await world.submit(["a", "b", "c"], priority=3)
    first, second, _ = (TaskId(job_id, index) for index in range(3))
    assert await list_queues_with_work(tx, ["q", "none"]) == ["q"]
    [taken] = await take_ready_by_id(tx, [second])
    assert (taken.task_index, taken.state, taken.input) == (1, TaskState.PENDING, '"b"')
    assert (taken.job_is_live, taken.urgency) == (True, -3)
    assert [task.task_index for task in await take_ready(tx, ["q"], 5)] == [0, 2]
    assert await explain_unclaimable(tx, [first, TaskId(job_id, 9)]) == {
        first: "not_eligible",
        TaskId(job_id, 9): "not_found",
    }


QUEUES = ["a", "b", "c", "d"]


async def taken_of(tx: Transaction, tasks_max: int) -> list[tuple[int, int]]:
    """Take the first tasks out of several queues; in the order of their ids."""
    taken = await take_ready(tx, QUEUES, tasks_max)
    return sorted((task.job_id, task.task_index) for task in taken)


async def test_of_several_queues_no_more_is_locked_than_is_taken(
    world: World, tx: Transaction
) -> None:
    jobs = [await world.submit(replicas=8, queue=queue) for queue in QUEUES]
    await world.clock.advance(1)
    urgent = await world.submit(replicas=2, queue="c", priority=1)
    taken = await taken_of(tx, 8)
    assert [job_id for job_id, _ in taken] == [jobs[0]] * 6 + [urgent] * 2
    count = "select count(*) from holdfast.tasks where xmax = pg_current_xact_id()::xid"
    assert await tx.connection.fetchval(count) == 8


async def test_for_what_somebody_holds_others_are_taken_from_any_of_several_queues(
    world: World, tx: Transaction, database: Database
) -> None:
    first = await world.submit(replicas=4, queue="a", priority=1)
    second = await world.submit(replicas=4, queue="b")
    hold = "select from holdfast.tasks where job_id = $1 and task_index < 3 for update"
    async with database.transaction() as other:
        await other.connection.execute(hold, first)
        expected = [(first, 3)] + [(second, index) for index in range(3)]
        assert await taken_of(tx, 4) == expected
    assert await taken_of(tx, 9) == [(first, 0), (first, 1), (first, 2), (second, 3)]
    assert await taken_of(tx, 9) == []


async def test_what_is_put_in_line_can_be_taken_when_it_is_due(
    world: World, tx: Transaction
) -> None:
    job_id = await world.submit([1, 2])
    tasks = [TaskId(job_id, index) for index in range(2)]
    now = await tx.now()
    await take_ready(tx, ["q"], 2)
    await insert_waiting(tx, [WaitingStretch(job_id, 1, now)])
    assert await lock_due(tx, [], 10) == tasks[:1]
    assert await promote_waiting(tx, tasks) == [ReadyTask(tasks[0], "q")]
    assert await feed_ready(tx, tasks[1:]) == [ReadyTask(tasks[1], "q")]
    waited = await list_waited(tx, waited=timedelta(), tasks_max=10)
    assert waited == [ReadyTask(task_id, "q") for task_id in tasks]


async def test_what_stays_in_line_for_too_long_is_overdue(
    ledger: Ledger, world: World, tx: Transaction
) -> None:
    job_id = await world.submit([1, 2])
    await take_ready(tx, ["q"], 2)
    now = await tx.now()
    await insert_ready(tx, [ReadyStretch(job_id, "q", 0, 1, -MINUTE)], now=now)
    assert await list_overdue(tx, except_jobs=[job_id + 1], batch_max=10) == [TaskId(job_id, 0)]
    # In line since another moment than the task is eligible, so it is not the task's own row.
    assert await take_overdue(tx, [TaskId(job_id, 0)]) == []


async def test_stale_rows_are_dropped_and_servers_are_notified(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    await cancel_job(ledger, job_id, "hard", actor="operator")
    assert await world.count("ready") == 1
    async with ledger.database.transaction() as tx:
        await drop_stale(tx, ["q"], 10)
        await notify_ready(tx, "q")
    assert await world.count("ready") == 0


async def _in_line(world: World) -> list[tuple[int, int]]:
    rows = await world.clock.fetch("select job_id, task_index from holdfast.ready order by 1, 2")
    return [tuple(row) for row in rows]


async def test_a_stretch_of_tasks_leaves_the_line_but_for_rows_that_are_held(
    world: World, database: Database
) -> None:
    job_id, other = await world.submit(["a", "b", "c"]), await world.submit(priority=2)
    placed = await world.submit(queue=None, replicas=2)
    async with database.transaction() as holder:
        await holder.connection.execute(
            "select from holdfast.ready where job_id = $1 and task_index = 1 for update", job_id
        )
        async with database.transaction() as tx:
            await leave_line(tx, [Stretch(job_id, 0, 2), Stretch(placed, 1, 9)])
    assert await _in_line(world) == [(job_id, 1), (job_id, 2), (other, 0), (placed, 0)]


async def test_stale_heads_are_dropped_from_every_queue_and_nothing_else_is(
    world: World, database: Database
) -> None:
    cancelled = [await world.submit(["a", "b"], queue=queue) for queue in ("p", "q", "r")]
    live = await world.submit(["a", "b"], queue="q")
    await world.clock.fetch(
        "update holdfast.jobs set cancel_mode = 'hard' where job_id = any ($1)",
        cancelled,
    )
    async with database.transaction() as tx:
        assert await drop_stale_heads(tx, "", queues_max=2, head_max=3) == (4, "q")
    assert await _in_line(world) == [(cancelled[2], 0), (cancelled[2], 1), (live, 0), (live, 1)]
    async with database.transaction() as tx:
        assert await drop_stale_heads(tx, "", queues_max=2, head_max=1) == (1, "r")
        assert await drop_stale_heads(tx, "q", queues_max=9, head_max=1) == (1, None)
        assert await drop_stale_heads(tx, "", queues_max=9, head_max=9) == (0, None)
    assert await _in_line(world) == [(live, 0), (live, 1)]
