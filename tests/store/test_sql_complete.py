"""Completing a task inside the transaction of its own code: what it writes, and what follows."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from holdfast.model.work.states import TaskState
from holdfast.operations.ending.complete import Completed
from holdfast.operations.renew import Renewed, renew
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.store.two_ways import encode, field_of
from tests.world import World, fence_of

CALL = "select holdfast.complete($1, $2, $3, $4::jsonb)"
ROLE = "a_user_who_may_only_complete"


@pytest.fixture
async def user(database_url: str) -> AsyncIterator[Any]:
    """A connection of a user's, to the database with his own table."""
    connection = await connect(database_url)
    await connection.execute("create table public.orders (item text)")
    yield connection
    await connection.close()


async def sql_complete(user: Any, claim: Any, result: Any = None, **changes: Any) -> None:
    """Complete an attempt by SQL."""
    fence = fence_of(claim)
    fields = {
        "task_id": str(fence.task_id),
        "attempt": fence.attempt,
        "lease_token": fence.lease_token,
    } | changes
    await user.execute(CALL, *fields.values(), None if result is None else encode(result))


async def orders(user: Any) -> int:
    return int(await user.fetchval("select count(*) from public.orders"))


@pytest.mark.parametrize("is_started", [True, False])
async def test_rows_and_success_commit_together_or_not_at_all(
    world: World, user: Any, is_started: bool
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    if is_started:
        await world.start(mine)
    before = await world.dump()
    transaction = user.transaction()
    await transaction.start()
    await user.execute("insert into orders values ('a kettle')")
    await sql_complete(user, mine, {"order": 1})
    await transaction.rollback()
    assert (await world.dump(), await orders(user)) == (before, 0)
    async with user.transaction():
        await user.execute("insert into orders values ('a kettle')")
        await sql_complete(user, mine, {"order": 1})
        assert await world.job_state(job_id) is TaskState.RUNNING
    assert (await world.job_state(job_id), await orders(user)) == (TaskState.SUCCEEDED, 1)
    assert await world.story(job_id) == ["claimed", "started", "succeeded"]
    assert await world.story(job_id, -1) == ["submitted", "started", "succeeded"]
    [row] = await world.clock.fetch("select result::text, actor from holdfast.tasks")
    assert tuple(row) == ('{"order": 1}', "w1")
    await assert_audit_is_silent(world.ledger.database)


async def test_the_worker_hears_that_it_is_over_and_is_not_told_to_stop(
    world: World, user: Any
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    await sql_complete(user, mine)
    [renewed] = await renew(world.ledger, [fence_of(mine)])
    assert isinstance(renewed, Renewed)
    assert renewed.cancel is None
    assert await world.succeed(mine, '"too late"') == Completed(mine.task_id, accepted=False)
    assert await world.lease(mine.task_id) is None
    [attempt] = (await world.task(mine.task_id)).attempts
    assert attempt["released_at"] is not None
    assert (attempt["state"], attempt["exit_code"]) == (TaskState.SUCCEEDED, 0)
    [row] = await world.clock.fetch("select result from holdfast.tasks")
    assert row[0] is None, "what the transaction has said counts"
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("status", ["failed", "killed", "worker_failed", "handed_back"])
async def test_whatever_becomes_of_the_code_after_it_the_success_stays(
    world: World, user: Any, status: str
) -> None:
    job_id = await world.submit(max_retries_failure=3)
    [mine] = await world.claim()
    await sql_complete(user, mine)
    assert await world.complete(mine, status) == Completed(mine.task_id, accepted=False)
    assert await world.job_state(job_id) is TaskState.SUCCEEDED
    assert await world.claim() == []
    await assert_audit_is_silent(world.ledger.database)


async def test_code_that_goes_on_after_its_timeout_is_stopped(world: World, user: Any) -> None:
    await world.submit(timeout=10.0)
    [mine] = await world.claim()
    await world.start(mine)
    await sql_complete(user, mine)
    await world.clock.advance(11)
    [renewed] = await renew(world.ledger, [fence_of(mine)])
    assert isinstance(renewed, Renewed)
    assert renewed.cancel == "hard"


async def test_a_worker_that_is_lost_after_it_leaves_nothing(world: World, user: Any) -> None:
    await world.watch()
    job_id = await world.submit()
    [mine] = await world.claim()
    await sql_complete(user, mine)
    await world.pass_time(40)
    assert await world.lease(mine.task_id) is None
    assert await world.job_state(job_id) is TaskState.SUCCEEDED
    await assert_audit_is_silent(world.ledger.database)


async def test_a_second_time_is_refused_so_that_nothing_is_written_twice(
    world: World, user: Any
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await sql_complete(user, mine)
    for _ in range(2):
        with pytest.raises(asyncpg.PostgresError, match="has completed already; roll back") as hit:
            await sql_complete(user, mine)
        assert hit.value.sqlstate == "HF004"
        await world.succeed(mine)


async def test_a_stale_fence_is_refused_and_changes_nothing(world: World, user: Any) -> None:
    await world.watch()
    await world.submit(max_retries_preemption=1)
    [mine] = await world.claim()
    await world.pass_time(40)
    [other] = await world.claim()
    before = await world.dump()
    for claim, changes in (
        (mine, {}),
        (other, {"lease_token": uuid4()}),
        (other, {"lease_token": UUID(int=other.lease_token.int ^ 1)}),
        (other, {"attempt": 0}),
        (other, {"task_id": "999999.0"}),
    ):
        with pytest.raises(asyncpg.PostgresError, match="does not hold the lease") as hit:
            await sql_complete(user, claim, **changes)
        assert hit.value.sqlstate == "HF003"
    assert await world.dump() == before


@pytest.mark.parametrize(
    ("field", "changes", "result"),
    [
        ("task_id", {"task_id": "12"}, None),
        ("task_id", {"task_id": None}, None),
        ("attempt", {"attempt": None}, None),
        ("lease_token", {"lease_token": None}, None),
        ("result", {}, "x" * (1 << 20)),
    ],
)
async def test_a_refusal_names_the_field(
    world: World, user: Any, field: str, changes: dict[str, Any], result: Any
) -> None:
    await world.submit()
    [mine] = await world.claim()
    with pytest.raises(asyncpg.InvalidParameterValueError, match=f"^{field}: ") as hit:
        await sql_complete(user, mine, result, **changes)
    assert field_of(hit.value) == field


async def test_what_waits_for_the_job_goes_on_after_the_commit(world: World, user: Any) -> None:
    first = await world.submit()
    second = await world.submit(depends_on=[{"job": str(first)}])
    [mine] = await world.claim()
    await sql_complete(user, mine)
    await world.run_chores()
    [next_one] = await world.claim()
    assert next_one.task_id.job_id == second


async def test_it_needs_no_right_but_this(world: World, user: Any) -> None:
    await world.submit()
    [mine] = await world.claim()
    await user.execute(f"create role {ROLE}")
    await user.execute(f"grant usage on schema holdfast to {ROLE}")
    try:
        await user.execute(f"set role {ROLE}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await sql_complete(user, mine)
        await user.execute(
            f"reset role; grant execute on function holdfast.complete to {ROLE}; set role {ROLE}"
        )
        await sql_complete(user, mine)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await user.execute("select * from holdfast.tasks")
    finally:
        await user.execute(f"reset role; drop owned by {ROLE}; drop role {ROLE}")
