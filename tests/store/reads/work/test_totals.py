"""What the tasks of a job add up to, on a real ledger."""

import json
from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.operations.usage import Usage, note_usage
from holdfast.store.database import Database
from holdfast.store.reads.work import totals
from holdfast.store.reads.work.jobs import get_job
from holdfast.store.reads.work.totals import JobTotals, read_totals
from tests.placed_world import PlacedWorld
from tests.world import World

USED = {"cpu_seconds": 1.5, "memory_peak_bytes": 4096, "processes_max": 2, "limits": "cgroup2"}
BUILT = {"fetch_ms": 10.0, "unpack_ms": 1.0, "bytes": 100, "bundle_cached": True}
NOTHING = JobTotals()


async def totals_of(database: Database, job_id: int) -> JobTotals:
    """Add up a job."""
    async with database.transaction() as tx:
        return await read_totals(tx, await get_job(tx, job_id))


async def test_retries_of_all_tasks_are_summed(world: World, database: Database) -> None:
    await world.submit()
    job_id = await world.submit([0] * 3, max_attempts=5, backoff={"base": 0.0}, queue="mine")
    assert await totals_of(database, job_id) == NOTHING
    for _ in range(2):
        for claim in await world.claim(2, queue="mine"):
            await world.start(claim)
            await world.fail(claim)
    [lost] = await world.claim(queue="mine")
    await world.start(lost)
    await world.complete(lost, "worker_failed")
    found = await totals_of(database, job_id)
    assert (found.failure_count, found.preemption_count) == (4, 1)


async def test_usage_and_builds_of_all_attempts_are_added_up(
    cluster: PlacedWorld, database: Database
) -> None:
    job_id = await cluster.submit([0] * 3)
    fences = [Fence(TaskId(job_id, index), 0, uuid4()) for index in range(3)]
    other = {**USED, "cpu_seconds": 2, "memory_peak_bytes": 2**40, "processes_max": 1}
    cached = {**BUILT, "environment_ms": 5.5, "environment_cached": True, "bundle_cached": False}
    await note_usage(
        cluster.ledger, [Usage(fences[0], USED, BUILT), Usage(fences[1], other, cached)]
    )
    found = await totals_of(database, job_id)
    assert (found.cpu_seconds, found.memory_peak_bytes, found.processes_max) == (3.5, 2**40, 2)
    assert (found.limits, found.bytes) == ("cgroup2", 200)
    assert (found.fetch_ms, found.unpack_ms, found.environment_ms) == (20.0, 2.0, 5.5)
    assert (found.bundle_cached, found.environment_cached) == (False, True)
    await note_usage(cluster.ledger, [Usage(fences[2], {"limits": "rlimit"})])
    assert (await totals_of(database, job_id)).limits is None


@pytest.mark.parametrize("odd", ["x", [1], {"a": 1}, None, -1, 1e300])
async def test_what_a_worker_says_in_another_shape_is_not_counted(
    cluster: PlacedWorld, database: Database, odd: Any
) -> None:
    job_id = await cluster.submit()
    fence = Fence(TaskId(job_id, 0), 0, uuid4())
    names = [name for name in JobTotals._fields[2:12] if (name, odd) != ("limits", "x")]
    said = dict.fromkeys(names, odd)
    await note_usage(cluster.ledger, [Usage(fence, said, said)])
    assert await totals_of(database, job_id) == NOTHING


async def test_ports_of_attempts_under_way_are_told_by_task(
    cluster: PlacedWorld, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit([0] * 3, resources={"ports": ["http", "rpc"]})
    alone = await cluster.submit(resources={"ports": ["http"]})
    await cluster.place()
    await cluster.beat()
    found = json.loads((await totals_of(database, job_id)).ports)
    assert set(found) == {f"{index}/{name}" for index in range(3) for name in ("http", "rpc")}
    assert len(set(found.values())) == 6
    assert set(json.loads((await totals_of(database, alone)).ports)) == {"http"}
    cluster.workers["w1"].succeed(TaskId(job_id, 1))
    await cluster.beat()
    assert await cluster.cancel_task(TaskId(job_id, 0))
    found = json.loads((await totals_of(database, job_id)).ports)
    assert set(found) == {"2/http", "2/rpc"}
    monkeypatch.setattr(totals, "PORTS_MAX", 1)
    assert set(json.loads((await totals_of(database, job_id)).ports)) == {"2/http"}


async def test_the_result_of_the_only_task_is_told_once_it_has_succeeded(
    world: World, database: Database
) -> None:
    alone, several = await world.submit(), await world.submit([1, 2])
    claims = await world.claim(3)
    for claim in claims:
        await world.start(claim)
    assert (await totals_of(database, alone)).result is None
    for claim in claims:
        await world.succeed(claim, result='{"rows":  3}')
    assert (await totals_of(database, alone)).result == '{"rows":  3}'
    assert (await totals_of(database, several)).result is None
