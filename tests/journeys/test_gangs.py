"""The life of a gang: it starts, breaks, waits and starts again as one."""

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.gangs import LEASE, a_gang
from tests.world import World

PENDING, SUCCEEDED, FAILED = TaskState.PENDING, TaskState.SUCCEEDED, TaskState.FAILED
WORKER_FAILED = TaskState.WORKER_FAILED


async def test_a_gang_breaks_twice_and_finishes_without_its_first_to_succeed(
    world: World, database: Database
) -> None:
    await world.watch()
    gang = await a_gang(
        world, replicas=4, max_retries_failure=1, max_retries_preemption=1, backoff={"base": 2.0}
    )
    assert await gang.place() == [0, 1, 2, 3]
    await gang.complete(m3="failed")
    assert await gang.ready() == []
    await gang.confirm(0, 1)
    await world.pass_time(5)
    # The backoff is over, but one host still holds its old member.
    assert await gang.ready() == [0, 1, 3]
    await gang.confirm(2)
    assert await gang.place() == [0, 1, 2, 3]
    await gang.succeed(0)
    for member in (1, 2):
        assert (await gang.tasks())[member].attempt == 1
    await world.clock.fetch(
        "update holdfast.leases set expires_at = expires_at - interval '50 s' where task_index = 1"
    )
    await world.pass_time(15)
    assert await gang.states() == [SUCCEEDED, PENDING, PENDING, PENDING]
    assert await gang.spent() == (1, 1)
    await world.pass_time(LEASE)
    assert await gang.place() == [1, 2, 3]
    await gang.succeed(1, 2, 3)
    assert await world.job_state(gang.job_id) == SUCCEEDED
    told = ["placed", "started", "failed", "retried", "placed", "worker_failed", "retried"]
    assert await world.story(gang.job_id, 3) == [*told, "placed", "started", "succeeded"]
    assert await world.story(gang.job_id, -1) == ["submitted", "started", "succeeded"]
    await assert_audit_is_silent(database)


@pytest.mark.parametrize("on_exhausted", ["fail", "dead_letter"])
async def test_a_gang_that_runs_out_of_retries_lets_go_of_every_host(
    world: World, database: Database, on_exhausted: str
) -> None:
    await world.watch()
    gang = await a_gang(world, max_retries_failure=1, on_exhausted=on_exhausted)
    await gang.place()
    await gang.complete(m0="failed", m1="failed", m2="worker_failed")
    assert await gang.place() == [0, 1, 2]
    await gang.complete(m2="failed")
    last = FAILED if on_exhausted == "fail" else TaskState.DEAD_LETTERED
    assert await gang.states() == [WORKER_FAILED, WORKER_FAILED, last]
    assert await gang.ending() == [0, 1]
    await world.pass_time(LEASE + 1)
    assert await world.count("leases") == 0
    assert await world.count("waiting") == 0
    assert await gang.ready() == []
    job = await world.job(gang.job_id)
    assert (job["state"], job["error"]) == (last, "boom of m2")
    for member in (0, 1):
        task = await world.task(TaskId(gang.job_id, member))
        assert (task.finished, task.attempts[-1]["released_at"] is not None) == (True, True)
    await assert_audit_is_silent(database)
