"""Tasks on a real ledger: their attempts, inputs and results, and how many are live."""

import pytest

from holdfast.errors import NotFound
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.notes import note_progress
from holdfast.operations.signals import wait_for_signal
from holdfast.store.database import Database
from holdfast.store.reads.work import tasks
from holdfast.store.reads.work.tasks import TaskRow
from tests.limits import set_limit
from tests.world import World, fence_of


async def tasks_of(
    database: Database, job_id: int, state: TaskState | None = None, page_size: int = 100
) -> list[TaskRow]:
    """List the tasks of a job, page by page."""
    found: list[TaskRow] = []
    after = -1
    for _ in range(1000):
        async with database.transaction() as tx:
            page = await tasks.list_tasks(tx, job_id, state, after=after, page_size=page_size)
        found += page.rows
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the list has no end")


async def task_of(database: Database, task_id: TaskId) -> TaskRow:
    async with database.transaction() as tx:
        return (await tasks.get_task(tx, task_id))[1]


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


async def test_the_input_of_a_task_is_read_as_it_came(world: World, database: Database) -> None:
    job_id, plain = await world.submit([{"n": 1}, None]), await world.submit()
    async with database.transaction() as tx:
        assert await tasks.get_input(tx, TaskId(job_id, 0)) == '{"n":1}'
        assert await tasks.get_input(tx, TaskId(job_id, 1)) == "null"
        assert await tasks.get_input(tx, TaskId(plain, 0)) is None
        with pytest.raises(NotFound):
            await tasks.get_input(tx, TaskId(plain, 1))


async def test_a_result_is_read_with_how_it_was_made(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2], entrypoint={"pickle": "gASVBAAAAAAAAABLAS4="})
    claims = await world.claim(2)
    await world.start(claims[0])
    await world.succeed(claims[0], '{"n":1}')
    async with database.transaction() as tx:
        done = await tasks.get_result(tx, TaskId(job_id, 0))
        open_one = await tasks.get_result(tx, TaskId(job_id, 1))
        with pytest.raises(NotFound, match=f"there is no task {job_id}.2"):
            await tasks.get_result(tx, TaskId(job_id, 2))
    assert (done.result, done.is_finished, done.is_pickled) == ('{"n":1}', True, True)
    assert (open_one.result, open_one.is_finished) == (None, False)


async def test_the_results_of_a_job_are_listed_by_index(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2, 3])
    for claim in await world.claim(2):
        await world.start(claim)
        await world.succeed(claim, str(claim.task_id.task_index))
    async with database.transaction() as tx:
        first = await tasks.list_results(tx, job_id, page_size=2)
        rest = await tasks.list_results(tx, job_id, after=1, page_size=2)
    assert [(row.task_index, row.result) for row in first] == [(0, "0"), (1, "1")]
    assert [(row.task_index, row.is_finished) for row in rest] == [(2, False)]


async def live(database: Database) -> tasks.Live:
    async with database.transaction() as tx:
        return await tasks.count_live(tx)


async def test_live_tasks_are_counted_by_where_they_stand(world: World, database: Database) -> None:
    assert await live(database) == tasks.Live(0, 0, 0, 0, 0, False)
    await world.submit([1, 2, 3, 4, 5, 6, 7], max_retries_failure=1)
    await world.submit(queue=None, replicas=2)  # the line of placed work counts too
    first, second, third, fourth, fifth = await world.claim(5)
    await world.start(first)
    await world.start(second)
    await world.report(third, TaskState.BUILDING)
    await world.start(fourth)
    await world.fail(fourth)
    await world.cancel_task(fifth.task_id)  # its process may live on, but it has ended
    assert await live(database) == tasks.Live(4, 1, 0, 1, 2, False)
    [_] = await world.claim()
    assert await live(database) == tasks.Live(3, 1, 1, 1, 2, False)


async def test_what_waits_for_a_limit_or_a_signal_is_counted_as_that(
    world: World, database: Database
) -> None:
    await set_limit(world.clock, "owners", "owner", 1)
    await world.submit([1, 2, 3], owner="ann")
    assert len(await world.claim(3)) == 1
    await world.submit(owner="bob")
    [mine] = await world.claim()
    await wait_for_signal(world.ledger, fence_of(mine), name="go", number=1, timeout=None)
    await world.complete(mine, "waiting")
    await world.submit(not_before=32_000_000_000)
    found = await live(database)
    assert (found.gated, found.awaiting_signal, found.waiting, found.ready) == (2, 1, 1, 0)


async def test_what_is_many_is_estimated_from_a_sample(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await world.submit(list(range(600)))
    await world.clock.fetch(
        "insert into holdfast.waiting select $1, generate_series(600, 999), holdfast.now()", job_id
    )
    claims = await world.claim(160)
    for claim in claims[:50]:
        await world.start(claim)
    for claim in claims[100:]:
        await world.cancel_task(claim.task_id)  # what is ending is not in the sample
    monkeypatch.setattr(tasks, "COUNTED_MAX", 100)
    monkeypatch.setattr(tasks, "OPEN_COUNTED_MAX", 40)
    found = await live(database)
    # All pages are looked at, there being few; of the attempts a part, which is scaled.
    assert (found.ready, found.waiting, found.is_estimate) == (440, 400, True)
    assert found.assigned + found.running == 100
    assert found.assigned > 0 < found.running
