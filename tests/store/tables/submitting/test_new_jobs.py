"""New jobs through the functions that store them."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Database, LockTimeout, Transaction
from holdfast.store.tables.submitting.new_jobs import (
    NewJob,
    StoredJobs,
    TasksInLine,
    allocate_job_ids,
    insert_jobs,
    store_jobs_at_once,
)
from holdfast.store.tables.work.jobs import find_by_key
from holdfast.store.tables.work.ready import take_ready
from holdfast.store.tables.work.tasks import lock_tasks_of_jobs
from tests.databases import connect
from tests.world import World

HALF_A_MINUTE = timedelta(seconds=30)


def a_job(job_id: int | None, **changes: Any) -> NewJob:
    return NewJob(
        job_id=job_id,
        name="n",
        type="t",
        owner="o",
        queue="q",
        priority=0,
        spec="{}",
        labels="{}",
        parent_job_id=None,
        replay_of=None,
        correlation_id="c",
        trace_id=None,
        trace_parent=None,
        idempotency_key=None,
        asked=None,
        shown=True,
        fan_out=False,
        max_task_failures=None,
        num_tasks=1,
        graph_id=None,
        compensates_job_id=None,
        unmet=0,
    )._replace(**changes)


async def test_ids_are_given_out_with_the_time_and_only_under_the_policies_that_hold(
    database: Database, world: World
) -> None:
    first, second = await allocate_job_ids(database, 2)
    assert await allocate_job_ids(database, 2, 1) == []
    [third] = await allocate_job_ids(database, 1, 0)
    assert (second.job_id, third.job_id) == (first.job_id + 1, first.job_id + 2)
    assert first.now <= third.now


async def test_a_key_lets_one_job_in(world: World, tx: Transaction) -> None:
    now = await tx.now()
    jobs = [a_job(901, idempotency_key="k"), a_job(902)]
    assert await insert_jobs(tx, jobs, now=now) == {901, 902}
    assert await insert_jobs(tx, [a_job(903, idempotency_key="k")], now=now) == set()
    assert await find_by_key(tx, [("o", "k"), ("o", "other")]) == {("o", "k"): 901}
    assert await lock_tasks_of_jobs(tx, [901, 902]) == []


async def test_tasks_come_with_their_jobs_but_for_those_of_known_keys(
    world: World, tx: Transaction
) -> None:
    now = await tx.now()
    await insert_jobs(tx, [a_job(901, idempotency_key="k")], now=now)
    tasks = TasksInLine()
    tasks.add(["1"], is_placed=False, scheduling_timeout=None)
    tasks.add(["2", None], is_placed=False, scheduling_timeout=HALF_A_MINUTE)
    again, other = a_job(902, idempotency_key="k"), a_job(903, num_tasks=2, priority=5)
    assert await insert_jobs(tx, [again, other], now=now, tasks=tasks) == {903}
    assert [task.id for task in await lock_tasks_of_jobs(tx, [901, 902, 903])] == [
        TaskId(903, 0),
        TaskId(903, 1),
    ]
    first, second = await take_ready(tx, ["q"], 10)
    assert (first.input, second.input) == ("2", None)
    assert (first.urgency, first.eligible_at) == (-5, now)


def one_task(count: int = 1) -> TasksInLine:
    """Give each of some jobs one task."""
    tasks = TasksInLine()
    for _ in range(count):
        tasks.add([None], is_placed=False, scheduling_timeout=None)
    return tasks


async def store(database: Database, *jobs: NewJob, version: int = 0, end: int = 900) -> StoredJobs:
    """Store jobs of one task each at once."""
    return await store_jobs_at_once(
        database, jobs, one_task(len(jobs)), policies_version=version, partitions_end=end
    )


async def test_one_call_gives_ids_and_stores(database: Database, world: World) -> None:
    new = a_job(None, idempotency_key="k")
    stored = await store(database, new, a_job(None), new)
    first, second, repeat = stored.job_ids
    assert first is not None
    assert (second, repeat) == (first + 1, None)
    assert await world.story(first, -1) == ["submitted"]
    async with database.transaction() as tx:
        assert [task.job_id for task in await take_ready(tx, ["q"], 10)] == [first, second]
    assert (await store(database, new)).job_ids == [None]
    assert await world.count("jobs") == 2


@pytest.mark.parametrize(("version", "end"), [(1, 900), (0, 1)])
async def test_nothing_is_stored_under_other_policies_or_beyond_the_partitions(
    database: Database, world: World, version: int, end: int
) -> None:
    assert (await store(database, a_job(None), version=version, end=end)).job_ids == []
    assert await world.count("jobs") == 0


async def test_one_call_stores_all_or_nothing_and_waits_for_no_lock_for_long(
    database: Database, database_url: str, world: World
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await store(database, a_job(None), a_job(None, num_tasks=0))
    other = await connect(database_url)
    async with other.transaction():
        await other.execute(
            "insert into holdfast.jobs (job_id, name, type, owner, priority, spec, labels, "
            "fan_out, correlation_id, idempotency_key, num_tasks, pending, created_at) "
            "values (800, 'n', 't', 'o', 0, '{}', '{}', false, 'c', 'k', 1, 1, now())"
        )
        with pytest.raises(LockTimeout):
            await store(database, a_job(None), a_job(None, idempotency_key="k"))
    assert await world.count("jobs") == 1
    await other.close()
