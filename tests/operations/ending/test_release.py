"""The second step of an end: until its release, a lease bars the next attempt."""

from typing import Any

from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.operations.claim import Claim
from tests.world import World


async def timed_out(world: World, **fields: Any) -> Claim:
    """Run a task into its timeout; the attempt has failed, its lease is ending."""
    await world.submit(timeout=10.0, max_retries_failure=1, lease=120.0, **fields)
    [mine] = await world.claim()
    await world.start(mine)
    await world.pass_time(15)
    lease = await world.lease(mine.task_id)
    assert lease is not None
    assert lease["ending"]
    return mine


async def test_a_retry_waits_until_its_last_lease_is_released(world: World) -> None:
    mine = await timed_out(world, backoff={"base": 0.0})
    await world.pass_time(20)
    task = await world.task(mine.task_id)
    assert (task.state, task.attempt) == (TaskState.PENDING, 1)
    assert (await world.count("waiting"), await world.count("ready")) == (1, 0)
    assert await world.claim(worker="w2") == []
    assert not (await world.complete(mine, "killed")).accepted
    assert (await world.count("waiting"), await world.count("ready")) == (0, 1)
    [again] = await world.claim(worker="w2")
    assert again.attempt == 1


async def test_a_release_before_the_backoff_is_over_leaves_the_task_waiting(world: World) -> None:
    mine = await timed_out(world, backoff={"base": 60.0})
    await world.complete(mine, "killed")
    assert await world.claim() == []
    await world.pass_time(91)
    [again] = await world.claim()
    assert again.attempt == 1


async def test_a_lease_that_runs_out_is_released_by_the_reaper(world: World) -> None:
    mine = await timed_out(world, backoff={"base": 0.0})
    await world.pass_time(100)
    assert await world.lease(mine.task_id) is not None
    await world.pass_time(10)
    assert await world.lease(mine.task_id) is None
    attempt = (await world.task(mine.task_id)).attempts[0]
    assert attempt["released_at"] > attempt["finished_at"]
    [again] = await world.claim()
    assert again.attempt == 1


async def test_a_release_writes_no_event_and_moves_no_task(world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id)
    before = await world.dump()
    await world.complete(mine, "killed")
    after = await world.dump()
    for table in ("jobs", "tasks", "events", "ready", "waiting"):
        assert after[table] == before[table]
    assert (await world.task(TaskId(job_id, 0))).attempts[0]["released_at"] is not None


async def test_the_released_attempt_remembers_its_last_lease(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id)
    await world.clock.advance(10)
    renewed = await world.renew(mine)
    await world.complete(mine, "killed")
    [attempt] = (await world.task(mine.task_id)).attempts
    assert attempt["last_lease_expires_at"] == renewed.lease_expires_at
