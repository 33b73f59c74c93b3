"""Gangs that lack slots of a limit: nobody who comes later keeps them out for ever."""

from typing import Any

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.operations.placed.gangs import KEPT_SECONDS
from holdfast.operations.usage_limits.tend import Gates
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.limits import set_limit
from tests.operations.placed.test_limits import finish
from tests.placed_world import PlacedWorld


async def start_singles(cluster: PlacedWorld, count: int, **fields: Any) -> list[TaskId]:
    """Submit single tasks of ann's, and let the scheduler look."""
    for _ in range(count):
        await cluster.submit(owner="ann", **fields)
    return list(await cluster.place())


async def look_behind_limits(cluster: PlacedWorld) -> None:
    """Run the chore that looks for those who could go."""
    await Gates(cluster.ledger).look()


async def test_a_stream_of_later_tasks_does_not_keep_a_gang_out(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 3)
    await cluster.add("w1", "w2", "w3")
    running = await start_singles(cluster, 3)
    gang = await cluster.submit(owner="ann", replicas=3, coscheduling={})
    assert await cluster.place() == {}
    for task_id in running[:2]:
        await finish(cluster, task_id)
        assert await start_singles(cluster, 2) == [], "they came after the gang"
    other = await cluster.submit(owner="bob")
    assert {task_id.job_id for task_id in await cluster.place()} == {other}
    await finish(cluster, running[2])
    assert {task_id.job_id for task_id in await cluster.place()} == {gang}
    for index in range(3):
        await finish(cluster, TaskId(gang, index))
    assert len(await cluster.place()) == 3, "then it is their turn"
    await assert_audit_is_silent(database)


async def test_who_stands_before_a_gang_goes_first(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 2)
    await cluster.add("w1", "w2")
    running = await start_singles(cluster, 1)
    gang = await cluster.submit(owner="ann", replicas=2, coscheduling={})
    assert await cluster.place() == {}
    urgent = await start_singles(cluster, 1, priority=5)
    assert len(urgent) == 1
    assert await start_singles(cluster, 1) == []
    for task_id in running + urgent:
        await finish(cluster, task_id)
    assert {task_id.job_id for task_id in await cluster.place()} == {gang}
    await assert_audit_is_silent(database)


async def test_of_two_gangs_the_first_in_line_is_kept_room_for(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 2)
    await cluster.add("w1", "w2")
    [running] = await start_singles(cluster, 1)
    first, second = [
        await cluster.submit(owner="ann", replicas=2, coscheduling={}) for _ in range(2)
    ]
    for _ in range(2):
        assert await cluster.place() == {}
    await finish(cluster, running)
    for gang in (first, second):
        assert {task_id.job_id for task_id in await cluster.place()} == {gang}
        for index in range(2):
            await finish(cluster, TaskId(gang, index))
    await assert_audit_is_silent(database)


@pytest.mark.parametrize("gang", [{"replicas": 4}, {"replicas": 2, "concurrency_key": "k"}])
async def test_a_gang_that_never_fits_its_limits_is_in_nobodys_way(
    cluster: PlacedWorld, database: Database, gang: dict[str, Any]
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 3)
    await set_limit(cluster.clock, "keys", "key", 1)
    await cluster.add("w1", "w2")
    running = await start_singles(cluster, 2)
    await cluster.submit(owner="ann", coscheduling={}, **gang)
    assert await cluster.place() == {}
    assert len(await start_singles(cluster, 2)) == 1
    await finish(cluster, running[0])
    assert len(await cluster.place()) == 1
    await assert_audit_is_silent(database)


async def test_a_gang_that_workers_have_no_room_for_is_kept_nothing(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 2)
    [big] = await cluster.add("w1")
    await start_singles(cluster, 1)
    [small] = await cluster.add("w2")
    await cluster.submit(owner="ann", replicas=2, coscheduling={}, resources={"cpu": 6.0})
    assert await cluster.place() == {}
    assert await start_singles(cluster, 1) == []
    await cluster.die(small)
    await cluster.pass_time(KEPT_SECONDS + 1)
    await look_behind_limits(cluster)
    assert list((await cluster.place()).values()) == [big.worker_id]
    await assert_audit_is_silent(database)


async def test_a_gang_that_was_cancelled_is_kept_nothing(
    cluster: PlacedWorld, database: Database
) -> None:
    await set_limit(cluster.clock, "owners", "owner", 2)
    await cluster.add("w1", "w2")
    await start_singles(cluster, 1)
    gang = await cluster.submit(owner="ann", replicas=2, coscheduling={})
    assert await cluster.place() == {}
    assert await start_singles(cluster, 1) == []
    await cluster.cancel_job(gang)
    await look_behind_limits(cluster)
    assert len(await cluster.place()) == 1
    await assert_audit_is_silent(database)
