"""What people read of placed work beyond what all tasks have, on a real ledger."""

import json

from holdfast.model.ids import TaskId
from holdfast.store import placed_views, views
from holdfast.store.database import Database
from holdfast.store.placed_views import AccountRow, AttemptPlace
from tests.cluster import Cluster
from tests.store.raw import Raw
from tests.world import World

USAGE = {"cpu_seconds": 1.5, "memory_peak_bytes": 4096, "processes_max": 2, "limits": "cgroup2"}
BUILD = {"fetch_ms": 12.0, "bundle_cached": True}


async def test_an_attempt_is_read_with_what_it_was_given_and_has_used(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1")
    job_id = await world.submit(queue=None, resources={"ports": ["http"]}, max_retries_failure=1)
    [placed] = await cluster.place()
    async with database.transaction() as tx:
        [attempt] = await views.list_attempts(tx, placed.task_id, page_size=10)
        place = AttemptPlace(0, 0, "w1")
        account = (await placed_views.read_accounts(tx, job_id, [place]))[0]
    assert attempt.ports == account.ports
    assert set(json.loads(attempt.ports or "{}")) == {"http"}
    assert (attempt.usage, account.usage) == (None, None)
    assert account.worker_address == "http://w1:7000"

    await cluster.end(placed.task_id, "failed", usage=USAGE, build=BUILD)
    async with database.transaction() as tx:
        [attempt] = await views.list_attempts(tx, placed.task_id, page_size=10)
        account = (await placed_views.read_accounts(tx, job_id, [place]))[0]
    assert (attempt.usage, attempt.build) == (account.usage, account.build)
    assert json.loads(account.usage or "") == USAGE
    assert json.loads(account.build or "") == BUILD


async def test_an_attempt_of_which_nothing_is_known_has_an_empty_account(
    world: World, database: Database
) -> None:
    job_id = await world.submit(queue=None)
    async with database.transaction() as tx:
        place = AttemptPlace(0, 3, "nobody")
        assert await placed_views.read_accounts(tx, job_id, [place]) == {0: AccountRow()}


async def test_those_that_stand_in_line_are_told_apart(world: World, database: Database) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", cpu=2.0)
    job_id = await world.submit(
        replicas=4, queue=None, max_retries_preemption=5, max_task_failures=4
    )
    await world.submit(queue=None, not_before=32_000_000_000)
    assert len(await cluster.place()) == 2
    await cluster.end(TaskId(job_id, 1), "worker_failed")
    async with database.transaction() as tx:
        standing = await placed_views.read_standing(tx, job_id, [0, 1, 2, 7])
        assert await placed_views.count_jobs_in_line(tx, 10) == 1
    assert standing == {1: "name-w1", 2: None}


async def test_jobs_in_line_are_counted_up_to_a_bound(
    world: World, lasting: Raw, database: Database
) -> None:
    async with database.transaction() as tx:
        assert await placed_views.count_jobs_in_line(tx, 10) == 0
    for job_id in range(5):
        await lasting.run(
            "insert into holdfast.ready (queue, urgency, eligible_at, job_id, task_index)"
            " select '', 0, now(), $1, n from generate_series(1, 30) as n",
            job_id,
        )
    await world.submit()
    async with database.transaction() as tx:
        assert await placed_views.count_jobs_in_line(tx, 10) == 5
        assert await placed_views.count_jobs_in_line(tx, 3) == 3
