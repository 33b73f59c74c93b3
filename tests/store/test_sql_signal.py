"""Signals by SQL, inside a user's own transaction: what they do, and what is refused."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast.errors import HoldfastError
from holdfast.operations.signals import Waited, send_signal, wait_for_signal
from holdfast.operations.upkeep.requeue import requeue_due
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.store.two_ways import encode, field_of
from tests.world import World, fence_of

CALL = "select holdfast.signal($1, $2, $3::jsonb, $4, $5)"
ROLE = "a_user_who_may_only_signal"


@pytest.fixture
async def user(database_url: str) -> AsyncIterator[Any]:
    """A connection of a user's."""
    connection = await connect(database_url)
    yield connection
    await connection.close()


async def signal(
    user: Any,
    job_id: int,
    payload: Any = None,
    *,
    name: str = "approval",
    task: int | None = None,
    key: str | None = None,
) -> int:
    """Send a signal by SQL."""
    content = None if payload is None else encode(payload)
    return int(await user.fetchval(CALL, job_id, name, content, task, key))


async def park(world: World) -> Any:
    """Have a task whose attempt has ended to wait."""
    await world.submit()
    [mine] = await world.claim()
    await wait_for_signal(world.ledger, fence_of(mine), name="approval", number=1, timeout=None)
    await world.complete(mine, "waiting")
    return mine


async def test_a_signal_is_sent_with_its_transaction_or_not_at_all(world: World, user: Any) -> None:
    mine = await park(world)
    for is_kept in (False, True):
        begun = user.transaction()
        await begun.start()
        assert await signal(user, mine.task_id.job_id, {"by": "ada"}) == 1
        await (begun.commit() if is_kept else begun.rollback())
        await requeue_due(world.ledger)
        claims = await world.claim()
        assert len(claims) == is_kept
    waited = await wait_for_signal(
        world.ledger, fence_of(claims[0]), name="approval", number=1, timeout=None
    )
    assert waited == Waited("received", '{"by": "ada"}')
    [[actor, facts]] = await user.fetch("select actor, facts from holdfast.actions")
    assert actor == await user.fetchval("select session_user::text")
    assert "approval" in facts
    await assert_audit_is_silent(world.ledger.database)


async def test_a_key_sends_one_signal_whichever_way(world: World, user: Any) -> None:
    job_id = await world.submit()
    assert await signal(user, job_id, [1], key="k") == 1
    assert await signal(user, job_id, [1], key="k") == 1
    again = await send_signal(
        world.ledger, job_id, 0, name="approval", payload="[1]", actor="x", idempotency_key="k"
    )
    assert again.is_repeat
    assert await user.fetchval("select count(*) from holdfast.signals") == 1
    assert await user.fetchval("select count(*) from holdfast.actions") == 1


async def refuse_both(world: World, user: Any, job_id: int, **given: Any) -> tuple[Any, Any]:
    """Have both ways refuse a signal; returns the two errors."""
    with pytest.raises(asyncpg.PostgresError) as by_sql:
        await signal(user, job_id, **given)
    fields = {"name": given.get("name", "approval"), "idempotency_key": given.get("key")}
    with pytest.raises(HoldfastError) as by_server:
        await send_signal(
            world.ledger,
            job_id,
            given.get("task"),
            payload=encode(given.get("payload")),
            actor="x",
            **fields,
        )
    return by_sql.value, by_server.value


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"payload": "x" * (1 << 20)},
        {"key": ""},
        {"key": "x" * 257},
        {"key": "used"},
        {},
    ],
)
async def test_what_is_refused_is_what_the_server_refuses(
    world: World, user: Any, given: dict[str, Any]
) -> None:
    job_id = await world.submit(inputs=[1, 2])
    await signal(user, job_id, 0, task=0, key="used")
    task = {} if not given else {"task": 0}
    by_sql, by_server = await refuse_both(world, user, job_id, **given | task)
    names = {"task_index": "task"}
    assert names.get(field_of(by_sql), field_of(by_sql)) == by_server.field
    assert str(by_sql).partition(": ")[2].split()[0] == str(by_server).partition(": ")[2].split()[0]
    assert await user.fetchval("select count(*) from holdfast.signals") == 1


async def test_who_is_not_there_or_has_ended_hears_nothing(world: World, user: Any) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.succeed(mine)
    for given in ({"job_id": 999}, {"job_id": job_id, "task": 7}, {"job_id": job_id}):
        by_sql, by_server = await refuse_both(world, user, **given)
        assert str(by_sql) == str(by_server)


async def test_it_needs_no_right_but_this(world: World, user: Any) -> None:
    job_id = await world.submit()
    await user.execute(f"create role {ROLE}")
    await user.execute(f"grant usage on schema holdfast to {ROLE}")
    try:
        await user.execute(f"set role {ROLE}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await signal(user, job_id)
        await user.execute(
            f"reset role; grant execute on function holdfast.signal to {ROLE}; set role {ROLE}"
        )
        await signal(user, job_id)
        for query in (
            "select * from holdfast.signals",
            f"select holdfast.put_signal({job_id}, 0, 'a', '1', null, 'somebody')",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await user.execute(query)
    finally:
        await user.execute(f"reset role; drop owned by {ROLE}; drop role {ROLE}")
