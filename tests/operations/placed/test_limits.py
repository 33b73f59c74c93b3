"""Limits of use hold for placed work: tasks take slots, gangs all of theirs or none."""

from collections import Counter
from typing import Any

from holdfast.model.work.ids import TaskId
from holdfast.operations.usage_limits.tend import Gates
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.limits import set_limit
from tests.placed_world import PlacedWorld


async def slots_held(cluster: PlacedWorld) -> int:
    """Count the slots that unreleased attempts hold."""
    rows: list[Any] = await cluster.clock.fetch(
        "select coalesce(sum(slots), 0)::int from holdfast.leases where held is not null"
    )
    return int(rows[0][0])


async def finish(cluster: PlacedWorld, task_id: TaskId) -> None:
    """Let a placed task start and succeed."""
    [row] = await cluster.clock.fetch(
        "select worker_id from holdfast.leases where job_id = $1 and task_index = $2", *task_id
    )
    worker = cluster.workers[row["worker_id"]]
    await cluster.beat(worker.worker_id)
    worker.start(task_id)
    await cluster.beat(worker.worker_id)
    worker.succeed(task_id)
    await cluster.beat(worker.worker_id)


async def test_an_owner_runs_no_more_than_his_limit_and_others_get_the_room(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 2)
    await cluster.add("w1", cpu=4.0)
    await cluster.submit([*range(9)], owner="ann", resources={"cpu": 1.0})
    await cluster.submit([*range(9)], owner="bob", resources={"cpu": 1.0})
    placed = await cluster.place()
    owners = [(await cluster.job(task_id.job_id))["owner"] for task_id in placed]
    assert Counter(owners) == {"ann": 2, "bob": 2}
    assert await slots_held(cluster) == 4
    assert await cluster.place() == {}
    await assert_audit_is_silent(database)


async def test_limits_of_queues_are_none_of_placed_work(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "queues", "queue", 1)
    await cluster.add("w1", cpu=4.0)
    await cluster.submit([*range(3)], resources={"cpu": 1.0})
    assert len(await cluster.place()) == 3
    await assert_audit_is_silent(database)


async def test_a_freed_slot_lets_the_next_task_in(cluster: PlacedWorld, database: Database) -> None:
    await set_limit(cluster.clock, "owners", "owner", 1)
    await cluster.add("w1")
    job_id = await cluster.submit([1, 2, 3])
    for index in range(3):
        placed = await cluster.place()
        assert list(placed) == [TaskId(job_id, index)]
        assert await slots_held(cluster) == 1
        await finish(cluster, TaskId(job_id, index))
    assert await slots_held(cluster) == 0
    await assert_audit_is_silent(database)


async def test_a_gang_gets_slots_for_all_its_members_or_for_none(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 3)
    await cluster.add("w1", "w2")
    single = await cluster.submit(owner="ann")
    await cluster.place()
    gang = await cluster.submit(owner="ann", replicas=3, coscheduling={})
    assert await cluster.place() == {}
    assert (await slots_held(cluster), await cluster.count("gated")) == (1, 0)
    await finish(cluster, TaskId(single, 0))
    assert {task_id.job_id for task_id in await cluster.place()} == {gang}
    assert await slots_held(cluster) == 3
    await assert_audit_is_silent(database)


async def test_who_comes_after_a_gang_is_not_let_go_before_it_only_to_come_back(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 3)
    await cluster.add("w1", "w2")
    await cluster.submit(owner="ann")
    await cluster.place()
    gang = await cluster.submit(owner="ann", replicas=3, coscheduling={})
    assert await cluster.place() == {}
    await cluster.submit(owner="ann", queue="q")
    assert await cluster.claim() == []
    await Gates(cluster.ledger).look()
    assert await cluster.count("gated") == 1
    await cluster.cancel_job(gang)
    await Gates(cluster.ledger).look()
    assert len(await cluster.claim()) == 1
    await assert_audit_is_silent(database)
