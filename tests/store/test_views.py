"""What people read of jobs and tasks, on a real ledger."""

import pytest

from holdfast.errors import NotFound
from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.operations.notes import note_progress
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from holdfast.store import views
from holdfast.store.database import Database
from holdfast.store.views import TaskRow
from tests.store.raw import Raw
from tests.world import World, fence_of


async def tasks_of(
    database: Database, job_id: int, state: TaskState | None = None, page_size: int = 100
) -> list[TaskRow]:
    """List the tasks of a job, page by page."""
    found: list[TaskRow] = []
    after = -1
    for _ in range(1000):
        async with database.transaction() as tx:
            page = await views.list_tasks(tx, job_id, state, after=after, page_size=page_size)
        found += page.rows
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the list has no end")


async def task_of(database: Database, task_id: TaskId) -> TaskRow:
    async with database.transaction() as tx:
        return (await views.get_task(tx, task_id))[1]


async def test_a_job_is_read_with_its_counts_and_spec(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2, 3], name="crawl", labels={"team": "search"}, priority=5)
    [claim] = await world.claim()
    await world.start(claim)
    async with database.transaction() as tx:
        job = await views.get_job(tx, job_id)
        whole = await views.get_job_with_spec(tx, job_id)
    assert (job.name, job.type, job.queue, job.priority) == ("crawl", "crawl", "q", 5)
    assert (job.num_tasks, job.running, job.pending) == (3, 1, 2)
    assert TaskState(job.state) is TaskState.RUNNING
    assert job.started_at is not None
    assert job.finished_at is None
    assert job.spec is None
    assert whole.spec is not None
    assert '"crawl"' in whole.spec
    assert whole._replace(spec=None) == job


async def test_a_job_that_is_still_arriving_does_not_exist(
    lasting: Raw, database: Database
) -> None:
    hidden = await lasting.insert_job(shown=False)
    await lasting.insert_task(hidden)
    async with database.transaction() as tx:
        for read in (views.get_job, views.get_job_with_spec):
            with pytest.raises(NotFound, match=f"there is no job {hidden}"):
                await read(tx, hidden)
        with pytest.raises(NotFound, match=f"there is no task {hidden}.0"):
            await views.get_task(tx, TaskId(hidden, 0))
        with pytest.raises(NotFound, match=f"there is no task {hidden}.0"):
            await views.get_result(tx, TaskId(hidden, 0))


async def test_tasks_are_listed_by_index_and_pages_join(world: World, database: Database) -> None:
    job_id = await world.submit([0] * 7)
    for page_size in (1, 3, 7, 100):
        found = await tasks_of(database, job_id, page_size=page_size)
        assert [task.task_index for task in found] == list(range(7))


async def test_tasks_are_found_by_state(world: World, database: Database) -> None:
    job_id = await world.submit([0] * 6, max_attempts=1)
    claims = {c.task_id.task_index: c for c in await world.claim(4)}
    await world.start(claims[1])
    await world.start(claims[2])
    await world.succeed(claims[2])
    await world.start(claims[3])
    await world.fail(claims[3])
    found = {
        state: [task.task_index for task in await tasks_of(database, job_id, state, page_size=1)]
        for state in TaskState
    }
    assert {state.name: indexes for state, indexes in found.items() if indexes} == {
        "ASSIGNED": [0],
        "RUNNING": [1],
        "SUCCEEDED": [2],
        "DEAD_LETTERED": [3],
        "PENDING": [4, 5],
    }


async def test_an_open_task_shows_its_lease(world: World, database: Database) -> None:
    job_id = await world.submit()
    [claim] = await world.claim(worker="w7")
    await world.start(claim)
    task = await task_of(database, TaskId(job_id, 0))
    assert task.is_open
    assert (task.lease_attempt, task.lease_worker_id, task.last_attempt) == (0, "w7", None)
    assert task.lease_expires_at == claim.lease_expires_at
    assert task.started_at is not None


async def test_a_task_that_waits_for_its_retry_shows_its_last_attempt(
    world: World, database: Database
) -> None:
    job_id = await world.submit(max_retries_failure=1, backoff={"base": 60})
    [claim] = await world.claim(worker="w7")
    await world.start(claim)
    await world.fail(claim)
    task = await task_of(database, TaskId(job_id, 0))
    assert not task.is_open
    assert (task.attempt, task.last_attempt, task.last_worker_id) == (1, 0, "w7")
    assert (task.error, task.error_class) == ("boom", "TransientError")
    assert task.lease_attempt is None


async def test_a_killed_task_shows_that_its_lease_is_still_ending(
    world: World, database: Database
) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await world.cancel_task(claim.task_id)
    task = await task_of(database, TaskId(job_id, 0))
    assert (TaskState(task.state), task.is_open) == (TaskState.KILLED, False)
    assert task.lease_is_ending
    assert task.last_attempt == 0


async def test_the_last_progress_is_the_one_that_is_shown(world: World, database: Database) -> None:
    await world.submit()
    [claim] = await world.claim()
    for fraction in (0.25, 0.5):
        await note_progress(world.ledger, [(fence_of(claim), fraction, f"at {fraction}")])
    task = await task_of(database, claim.task_id)
    assert task.progress_attempt == 0
    assert task.progress == '{"fraction":0.5,"message":"at 0.5"}'


async def test_attempts_are_listed_oldest_first_and_in_pages(
    world: World, database: Database
) -> None:
    job_id = await world.submit(max_retries_failure=2, backoff={"base": 0, "ceiling": 0})
    for worker in ("a", "b", "c"):
        [claim] = await world.claim(worker=worker)
        await world.start(claim)
        if worker != "c":
            await world.fail(claim)
    async with database.transaction() as tx:
        whole = await views.list_attempts(tx, TaskId(job_id, 0), page_size=10)
        rest = await views.list_attempts(tx, TaskId(job_id, 0), after=0, page_size=1)
    assert [(row.attempt, row.worker_id) for row in whole] == [(0, "a"), (1, "b"), (2, "c")]
    assert [TaskState(row.state).name for row in whole] == ["FAILED", "FAILED", "RUNNING"]
    assert [row.attempt for row in rest] == [1]


async def test_a_result_is_read_with_how_it_was_made(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2], entrypoint={"pickle": "gASVBAAAAAAAAABLAS4="})
    claims = await world.claim(2)
    await world.start(claims[0])
    await world.succeed(claims[0], '{"n":1}')
    async with database.transaction() as tx:
        done = await views.get_result(tx, TaskId(job_id, 0))
        open_one = await views.get_result(tx, TaskId(job_id, 1))
        with pytest.raises(NotFound, match=f"there is no task {job_id}.2"):
            await views.get_result(tx, TaskId(job_id, 2))
    assert (done.result, done.is_finished, done.is_pickled) == ('{"n":1}', True, True)
    assert (open_one.result, open_one.is_finished) == (None, False)


async def test_the_results_of_a_job_are_listed_by_index(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2, 3])
    for claim in await world.claim(2):
        await world.start(claim)
        await world.succeed(claim, str(claim.task_id.task_index))
    async with database.transaction() as tx:
        first = await views.list_results(tx, job_id, page_size=2)
        rest = await views.list_results(tx, job_id, after=1, page_size=2)
    assert [(row.task_index, row.result) for row in first] == [(0, "0"), (1, "1")]
    assert [(row.task_index, row.is_finished) for row in rest] == [(2, False)]


async def test_a_line_tells_whether_it_is_paused_and_served(
    world: World, database: Database
) -> None:
    async with database.transaction() as tx:
        before = await views.read_line(tx, "q")
    assert (before.paused_by, before.is_served) == (None, False)
    await register(world.ledger, Registration("w1", "w", "h", ("other", "q")))
    await pause_queue(world.ledger, "q", actor="operator")
    async with database.transaction() as tx:
        after = await views.read_line(tx, "q")
    assert (after.paused_by, after.is_served) == ("operator", True)
    await world.clock.advance(31)
    async with database.transaction() as tx:
        assert not (await views.read_line(tx, "q")).is_served


async def test_those_ahead_are_the_more_urgent_and_the_older(
    world: World, database: Database
) -> None:
    first = await world.submit([1, 2, 3])
    urgent = await world.submit(priority=9)
    await world.submit(queue="elsewhere", priority=99)
    last = await world.submit()
    async with database.transaction() as tx:
        ahead = {
            str(task_id): await views.count_ahead(tx, *await views.get_task(tx, task_id))
            for task_id in (TaskId(first, 0), TaskId(first, 2), TaskId(urgent, 0), TaskId(last, 0))
        }
    assert list(ahead.values()) == [1, 3, 0, 4]
