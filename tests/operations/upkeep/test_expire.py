"""What nobody has started by its time ends, once, and says so."""

import asyncio
from typing import Any

import asyncpg
import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.upkeep.expire import expire
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.world import World

KILL: dict[str, Any] = {"on_exhausted": "fail", "expires": 60.0}


async def test_what_nobody_started_is_killed_and_says_so(world: World, ledger: Ledger) -> None:
    job_id = await world.submit(**KILL)
    await world.pass_time(55)
    assert await world.job_state(job_id) == TaskState.PENDING
    await world.pass_time(10)
    assert await world.job_state(job_id) == TaskState.KILLED
    assert await world.story(job_id) == ["killed"]
    job = await world.job(job_id)
    assert job["error"] == "expired: nobody started it within 60 s"
    assert await world.claim() == []
    assert [await world.count(table) for table in ("ready", "waiting", "expiries")] == [0, 0, 0]
    await assert_audit_is_silent(ledger.database)


async def test_it_is_a_dead_letter_where_exhausted_tasks_are(world: World) -> None:
    job_id = await world.submit(expires=60.0)
    await world.pass_time(65)
    assert await world.job_state(job_id) == TaskState.DEAD_LETTERED
    [letter] = await world.clock.fetch("select reason_code, last_error from holdfast.dead_letters")
    assert tuple(letter) == ("timeout", "expired: nobody started it within 60 s")
    assert await world.story(job_id) == ["dead_lettered"]
    await assert_audit_is_silent(world.ledger.database)


async def test_a_time_may_be_given(world: World) -> None:
    now = (await world.clock.fetch("select extract(epoch from holdfast.now())::float8"))[0][0]
    job_id = await world.submit(on_exhausted="fail", expires_at=now + 60, not_before=now + 30)
    await world.pass_time(25)
    assert await world.count("waiting") == 1
    await world.pass_time(40)
    assert await world.job_state(job_id) == TaskState.KILLED
    assert (await world.job(job_id))["error"].startswith("expired: nobody started it before 20")


@pytest.mark.parametrize("fields", [{"start_delay": 30.0}, {"start_rate": 0.001}, {}])
async def test_what_waits_for_anything_else_expires_too(
    world: World, fields: dict[str, Any]
) -> None:
    before = await world.submit(queue="other")
    waits = {} if fields else {"depends_on": [str(before)]}
    job_id = await world.submit([1, 2], **KILL, **fields, **waits)
    await world.pass_time(65)
    assert await world.job_state(job_id) == TaskState.KILLED
    assert await world.count("ready") == 1
    await assert_audit_is_silent(world.ledger.database)


async def test_what_was_claimed_once_goes_on(world: World) -> None:
    job_id = await world.submit([0, 1, 2, 3], **KILL, max_retries_failure=1)
    done, running, retried = [await world.claim_by_id(TaskId(job_id, index)) for index in range(3)]
    await world.succeed(done)
    await world.start(running)
    await world.fail(retried)
    await world.pass_time(20)
    await world.renew(running)
    await world.clock.advance(45)
    assert await expire(world.ledger) == 1
    states = [(await world.task(TaskId(job_id, index))).state for index in range(4)]
    assert states == [
        TaskState.SUCCEEDED, TaskState.RUNNING, TaskState.PENDING, TaskState.KILLED,
    ]  # fmt: skip
    assert await world.count("expiries") == 0
    [claim] = await world.claim(9)
    assert claim.task_id == TaskId(job_id, 2)
    await assert_audit_is_silent(world.ledger.database)


async def test_a_job_that_has_ended_has_nothing_to_expire(world: World) -> None:
    await world.submit(**KILL)
    [claim] = await world.claim()
    await world.succeed(claim)
    cancelled = await world.submit(**KILL)
    await world.cancel_job(cancelled)
    await world.clock.advance(65)
    assert await expire(world.ledger) == 0
    assert await world.count("expiries") == 0
    assert (await world.job(cancelled))["cancel_reason"] == "cancelled"


async def test_a_large_job_expires_in_parts_and_many_small_ones_together(world: World) -> None:
    large = await world.submit([*range(25)], **KILL)
    small = [await world.submit(**KILL) for _ in range(5)]
    await world.clock.advance(65)
    counts = [await expire(world.ledger, batch_max=10) for _ in range(4)]
    assert (sum(counts), counts[0], counts[3]) == (30, 10, 0)
    for job_id in (large, *small):
        assert await world.job_state(job_id) == TaskState.KILLED
    assert await world.count("expiries") == 0
    await assert_audit_is_silent(world.ledger.database)


async def test_a_held_task_costs_its_job_alone(world: World, database_url: str) -> None:
    held, other = await world.submit(**KILL), await world.submit(**KILL)
    await world.clock.advance(65)
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"begin; select from holdfast.tasks where job_id = {held} for update")
    assert await expire(world.ledger) == 1
    assert await world.job_state(other) == TaskState.KILLED
    await connection.close()
    assert await expire(world.ledger) == 1
    assert await world.job_state(held) == TaskState.KILLED


async def test_a_claim_at_the_same_moment_has_the_task_or_does_not(
    world: World, ledger: Ledger, database_url: str
) -> None:
    job_id = await world.submit([*range(40)], **KILL)
    await world.clock.advance(65)
    async with Database(database_url) as other:
        claims, *_ = await asyncio.gather(
            _claim_all(world), expire(ledger, batch_max=5), expire(Ledger(other), batch_max=7)
        )
    while await expire(ledger):
        pass
    claimed = {claim.task_id.task_index for claim in claims}
    for index in range(40):
        task = await world.task(TaskId(job_id, index))
        assert task.state == (TaskState.ASSIGNED if index in claimed else TaskState.KILLED)
        assert len(await world.story(job_id, index)) == 1
    await assert_audit_is_silent(ledger.database)


async def _claim_all(world: World) -> list[Any]:
    claims = []
    for _ in range(10):
        claims += await world.claim(1)
    return claims


async def test_a_rerun_has_its_own_time(world: World, ledger: Ledger) -> None:
    job_id = await world.submit(on_exhausted="fail", expires_at=1.0)
    await world.run_chores()
    assert await world.job_state(job_id) == TaskState.KILLED
    again = await rerun(ledger, job_id, actor="ann", only_unsuccessful=False, dry_run=False)
    await world.run_chores()
    assert again.job_id is not None
    assert await world.job_state(again.job_id) == TaskState.PENDING
