"""Attempts on a real ledger: of a task, of a job, and what placed ones have used."""

import json

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Database
from holdfast.store.reads.work import attempts
from holdfast.store.reads.work.attempts import AccountRow, AttemptOnWorker, AttemptPosition
from tests.cluster import Cluster
from tests.world import World

USAGE = {"cpu_seconds": 1.5, "memory_peak_bytes": 4096, "processes_max": 2, "limits": "cgroup2"}


BUILD = {"fetch_ms": 12.0, "bundle_cached": True}


async def attempts_of(
    database: Database, job_id: int, page_size: int = 100, after: AttemptPosition | None = None
) -> list[tuple[int, int, int]]:
    """List the attempts of a job, page by page: task, number and state."""
    found: list[tuple[int, int, int]] = []
    position = after or attempts.FIRST_ATTEMPT
    for _ in range(100):
        async with database.transaction() as tx:
            rows = await attempts.list_job_attempts(tx, job_id, after=position, page_size=page_size)
        found += [(row.task_index, row.attempt, row.state) for row in rows]
        if len(rows) < page_size:
            return found
        position = AttemptPosition(rows[-1].task_index, rows[-1].attempt)
    raise AssertionError("the list has no end")


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
        whole = await attempts.list_attempts(tx, TaskId(job_id, 0), page_size=10)
        rest = await attempts.list_attempts(tx, TaskId(job_id, 0), after=0, page_size=1)
    assert [(row.attempt, row.worker_id) for row in whole] == [(0, "a"), (1, "b"), (2, "c")]
    assert [TaskState(row.state).name for row in whole] == ["FAILED", "FAILED", "RUNNING"]
    assert [row.attempt for row in rest] == [1]


async def test_all_attempts_of_a_job_are_listed_by_task_and_number(
    world: World, database: Database
) -> None:
    job_id = await world.submit([0] * 4, max_attempts=3, backoff={"base": 0.0})
    await world.submit()
    for _ in range(2):
        for claim in await world.claim(3):
            await world.start(claim)
            if claim.task_id.task_index == 0:
                await world.succeed(claim)
            else:
                await world.fail(claim)
        await world.run_chores()
    open_now = await world.claim(2)
    assert {claim.task_id.job_id for claim in open_now} == {job_id}
    whole = await attempts_of(database, job_id)
    assert whole == sorted(whole)
    recorded = await world.clock.fetch(
        "select task_index, attempt, state from holdfast.attempt_history where job_id = $1"
        " order by 1, 2",
        job_id,
    )
    assert whole == [tuple(row) for row in recorded]
    assert len([state for *_, state in whole if state == 9]) == 2
    for page_size in (1, 2, 3):
        assert await attempts_of(database, job_id, page_size) == whole
    from_two = await attempts_of(database, job_id, after=AttemptPosition(2, -1))
    assert from_two == [row for row in whole if row[0] >= 2]


async def test_an_attempt_that_is_ending_is_listed_once(world: World, database: Database) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await world.start(claim)
    await world.cancel_job(job_id, "hard")
    assert await world.lease(claim.task_id) is not None
    assert await attempts_of(database, job_id) == [(0, 0, 6)]


async def test_an_attempt_is_read_with_what_it_was_given_and_has_used(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1")
    job_id = await world.submit(queue=None, resources={"ports": ["http"]}, max_retries_failure=1)
    [placed] = await cluster.place()
    async with database.transaction() as tx:
        [attempt] = await attempts.list_attempts(tx, placed.task_id, page_size=10)
        tried = AttemptOnWorker(0, 0, "w1")
        account = (await attempts.read_accounts(tx, job_id, [tried]))[0]
    assert attempt.ports == account.ports
    assert set(json.loads(attempt.ports or "{}")) == {"http"}
    assert (attempt.usage, account.usage) == (None, None)
    assert account.worker_address == "http://w1:7000"

    await cluster.end(placed.task_id, "failed", usage=USAGE, build=BUILD)
    async with database.transaction() as tx:
        [attempt] = await attempts.list_attempts(tx, placed.task_id, page_size=10)
        account = (await attempts.read_accounts(tx, job_id, [tried]))[0]
    assert (attempt.usage, attempt.build) == (account.usage, account.build)
    assert json.loads(account.usage or "") == USAGE
    assert json.loads(account.build or "") == BUILD


async def test_an_attempt_of_which_nothing_is_known_has_an_empty_account(
    world: World, database: Database
) -> None:
    job_id = await world.submit(queue=None)
    async with database.transaction() as tx:
        tried = AttemptOnWorker(0, 3, "nobody")
        assert await attempts.read_accounts(tx, job_id, [tried]) == {0: AccountRow()}
