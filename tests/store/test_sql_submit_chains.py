"""Chains of jobs that are submitted by SQL, and by the server, in turns."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.ledger.news import News
from holdfast.model.work.ids import TaskId
from holdfast.operations.dead_letters import dead_letter_locked
from holdfast.operations.ending.dependents import let_pass
from holdfast.store.tables.work.tasks import lock_tasks
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.operations.submitting.test_chains import end_before_its_turn, finish, join
from tests.store.two_ways import SPEC, sql_submit
from tests.waiting import eventually
from tests.world import World

CHAINED = SPEC | {"chain": "customer-7"}


@pytest.fixture
async def user(database_url: str) -> AsyncIterator[Any]:
    """A connection of a user's."""
    connection = await connect(database_url)
    yield connection
    await connection.close()


async def test_both_ways_make_one_line(world: World, user: Any) -> None:
    job_ids = []
    for _ in range(3):
        job_ids += [await sql_submit(user, CHAINED), await join(world)]
    assert [await finish(world) for _ in job_ids] == job_ids
    await assert_audit_is_silent(world.ledger.database)


async def test_a_rollback_leaves_the_chain_as_it_was(world: World, user: Any) -> None:
    first = await join(world)
    transaction = user.transaction()
    await transaction.start()
    await sql_submit(user, CHAINED)
    await transaction.rollback()
    second = await join(world)
    assert [await finish(world) for _ in range(2)] == [first, second]
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize(("on_failure", "goes_on"), [("pass", True), ("block", False)])
async def test_a_failure_is_passed_or_blocks(
    world: World, user: Any, on_failure: str, goes_on: bool
) -> None:
    await sql_submit(user, CHAINED)
    for _ in range(2):
        await sql_submit(user, CHAINED | {"on_failure": on_failure})
        await finish(world, "failed")
        assert bool(await world.count("ready")) is goes_on
        if not goes_on:
            break
    await assert_audit_is_silent(world.ledger.database)


async def test_a_repeat_joins_once(world: World, user: Any) -> None:
    keyed = CHAINED | {"idempotency_key": "k"}
    first = await sql_submit(user, keyed)
    assert await sql_submit(user, keyed) == first
    second = await sql_submit(user, CHAINED)
    assert [await finish(world) for _ in range(2)] == [first, second]


@pytest.mark.parametrize("how", ["cancel", "dead letter"])
@pytest.mark.parametrize("on_failure", ["pass", "block"])
async def test_who_comes_after_one_that_ended_before_its_turn_waits_for_those_before(
    world: World, user: Any, how: str, on_failure: str
) -> None:
    running, second = await end_before_its_turn(world, how)
    third = await sql_submit(user, CHAINED | {"on_failure": on_failure})
    assert await world.claim(9) == []
    await assert_audit_is_silent(world.ledger.database)
    await world.succeed(running)
    await world.run_chores()
    if (how, on_failure) == ("dead letter", "block"):
        assert await world.claim(9) == []
        assert await let_pass(world.ledger, second, actor="eve", reason="mended")
    await finish(world, expected=third)


@pytest.mark.parametrize("road", ["server", "sql"])
@pytest.mark.parametrize(
    ("how", "on_failure", "goes_on"),
    [
        ("dead letter", "block", False),
        ("expiry", "block", False),
        ("dead letter", "pass", True),
        ("cancel", "block", True),
    ],
)
async def test_one_that_ends_before_its_turn_may_stop_who_waits_for_it_already(
    world: World, user: Any, road: str, how: str, on_failure: str, goes_on: bool
) -> None:
    async def join_next(_: int) -> int:
        if road == "server":
            return await join(world, on_failure=on_failure)
        return await sql_submit(user, CHAINED | {"on_failure": on_failure})

    running, second = await end_before_its_turn(world, how, join_next)
    assert await world.claim(9) == []
    await assert_audit_is_silent(world.ledger.database)
    await world.succeed(running)
    await world.pass_time(2)
    if not goes_on:
        assert await world.claim(9) == []
        assert await let_pass(world.ledger, second, actor="eve", reason="mended")
    third = await finish(world)
    assert third > second
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("road", ["server", "sql"])
@pytest.mark.parametrize(("on_failure", "goes_on"), [("pass", True), ("block", False)])
async def test_who_joins_behind_one_that_was_cancelled_where_the_chain_stands_still(
    world: World, user: Any, road: str, on_failure: str, goes_on: bool
) -> None:
    first, second = await join(world), await join(world, on_failure="block")
    await finish(world, "failed")
    await world.cancel_job(second)
    await world.run_chores()
    if road == "server":
        third = await join(world, on_failure=on_failure)
    else:
        third = await sql_submit(user, CHAINED | {"on_failure": on_failure})
    await assert_audit_is_silent(world.ledger.database)
    if not goes_on:
        assert await world.claim(9) == []
        assert await let_pass(world.ledger, first, actor="eve", reason="mended")
    await finish(world, expected=third)


@pytest.mark.parametrize("road", ["server", "sql"])
async def test_who_joins_as_the_last_ends_waits_for_those_before(
    world: World, user: Any, road: str
) -> None:
    first, second = await join(world), await join(world)
    [running] = await world.claim(9)
    assert running.task_id.job_id == first
    async with world.ledger.database.transaction() as tx:
        tx.news = News()
        tasks = await lock_tasks(tx, [TaskId(second, 0)])
        await dead_letter_locked(world.ledger, tx, tasks, actor="ann", reason="no")
        submission = join(world) if road == "server" else sql_submit(user, CHAINED)
        third = asyncio.create_task(submission)

        async def is_waiting() -> bool:
            waiting = "select from pg_locks where not granted"
            return third.done() or bool(await world.clock.fetch(waiting))

        await eventually(is_waiting)
        assert not third.done()
    assert await third > second
    assert await world.claim(9) == []
    await world.succeed(running)
    await world.run_chores()
    await finish(world, expected=await third)
    await assert_audit_is_silent(world.ledger.database)
