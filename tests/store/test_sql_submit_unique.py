"""Unique jobs that come by SQL: among those of both roads, one is there."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.states import TaskState
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.submit import submit_one
from tests.audits import assert_audit_is_silent
from tests.databases import connect
from tests.operations.submitting.test_unique import unique
from tests.store.test_sql_submit import wait_until_blocked
from tests.store.test_sql_submit_parity import nested
from tests.store.two_ways import NOW, SPEC, TwoWays, sql_submit
from tests.world import World


@pytest.fixture
async def user(database_url: str) -> AsyncIterator[Any]:
    """A user's own connection."""
    connection = await connect(database_url)
    try:
        yield connection
    finally:
        await connection.close()


YEAR = 366 * 86_400.0
CALL = SPEC | {
    "entrypoint": {"function": "a:b", "args": [[1], None], "kwargs": {"a": {"b c": 1, "1": 2}}}
}
UNIQUE_PATHS = {
    "args": None,
    "args[0]": None,
    "args.0": None,
    "args[0][00]": None,
    "args[1]": None,
    "kwargs.a": None,
    "kwargs.a.b c": None,
    "kwargs[a]": "unique.arguments[0]",
    "kwargs.a[1]": None,
    "kwargs.a.1": None,
    "inputs": None,
    "inputs[0].id[0]": None,
    "": "unique.arguments[0]",
    "arg": "unique.arguments[0]",
    "args[0][1]": "unique.arguments[0]",
    "args[0].-1": "unique.arguments[0]",
    "args[0].+0": "unique.arguments[0]",
    "args.x": "unique.arguments[0]",
    "args[1][0]": "unique.arguments[0]",
    "args[99999999999]": "unique.arguments[0]",
    "kwargs.b": "unique.arguments[0]",
    "kwargs..a": "unique.arguments[0]",
    "inputs[1]": "unique.arguments[0]",
    "inputs.a": "unique.arguments[0]",
    "entrypoint.args": "unique.arguments[0]",
}

EDGES: list[tuple[Any, Any, str | None]] = [
    *[
        (CALL | {"unique": {"arguments": [path]}}, [{"id": [1]}], field)
        for path, field in UNIQUE_PATHS.items()
    ],
    (SPEC | {"unique": {"arguments": ["args"]}}, None, "unique.arguments[0]"),
    (SPEC | {"unique": {"arguments": []}}, None, None),
    (SPEC | {"unique": {"arguments": ["args"] * 101}}, None, "unique.arguments"),
    (SPEC | {"unique": {"arguments": [], "values": []}}, None, "unique.values"),
    (SPEC | {"unique": {"values": nested(100)}}, None, None),
    (SPEC | {"unique": {"values": nested(101)}}, None, "unique.values"),
    (SPEC | {"unique": {"period": 0.99}}, None, "unique.period"),
    (SPEC | {"unique": {"period": 3600}}, None, None),
    (SPEC | {"unique": {"period": YEAR + 1}}, None, "unique.period"),
    (SPEC | {"unique": {"states": []}}, None, "unique.states"),
    (SPEC | {"unique": {"states": ["running"]}}, None, "unique.states"),
    (SPEC | {"unique": {"states": ["pending", "failed"]}}, None, "unique.states"),
    (SPEC | {"unique": {"on_conflict": "replace"}}, None, None),
    (SPEC | {"unique": {"on_conflict": "replace", "keep_start": True}}, [1], None),
    (SPEC | {"unique": {"on_conflict": "replace", "states": ["pending", "running"]}}, None,
     "unique.states"),
    (SPEC | {"unique": {"keep_start": True}}, None, "unique.keep_start"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "inputs", "field"), EDGES, ids=range(len(EDGES)))
async def test_what_is_refused_is_refused_on_both_roads(
    ledger: Ledger, user: Any, fields: Any, inputs: Any, field: str | None
) -> None:
    await user.execute(
        "create or replace function holdfast.now() returns timestamptz language sql volatile "
        f"as $$select timestamptz '{NOW.isoformat()}'$$"
    )
    stored = await TwoWays(ledger, user).compare(fields, inputs)
    assert stored == field if field else isinstance(stored, dict)


def spec(*args: Any, **fields: Any) -> dict[str, Any]:
    """Describe the call that `unique` describes for the server."""
    entrypoint = {"function": "app:work", "args": list(args)}
    return {"entrypoint": entrypoint, "queue": "q", "unique": {}} | fields


async def test_each_road_meets_the_jobs_of_the_other(
    world: World, ledger: Ledger, user: Any
) -> None:
    first = await sql_submit(user, spec(1))
    assert (await submit_one(ledger, unique(1))).job_id == first
    assert await sql_submit(user, spec(1)) == first
    second = (await submit_one(ledger, unique(2))).job_id
    assert await sql_submit(user, spec(2)) == second
    await world.claim(2)
    await world.cancel_job(first)
    assert await sql_submit(user, spec(1)) > second
    await assert_audit_is_silent(ledger.database)


@pytest.mark.parametrize(
    "rule",
    [
        {"arguments": ["args[0].a"]},
        {"values": [{"b": None, "a": [1]}]},
        {"period": 3600, "owner": True},
        {"arguments": []},
        {"arguments": ["inputs[1]", "args"]},
    ],
    ids=str,
)
async def test_both_make_the_same_key(
    ledger: Ledger, world: World, user: Any, rule: dict[str, Any]
) -> None:
    value = {"b": 2, "a": [1, 2.5, "ü\n"]}
    inputs = [1, {"z": 1, "a": None}]
    first = await sql_submit(user, spec(value, unique=rule), inputs)
    answer = await submit_one(ledger, unique(value, inputs=inputs, rule=rule))
    assert (answer.job_id, answer.is_new) == (first, False)


async def test_what_is_refused_has_a_code_of_its_own(world: World, user: Any) -> None:
    first = await sql_submit(user, spec(1))
    before = await world.dump()
    with pytest.raises(asyncpg.UniqueViolationError, match=f"job {first} is alike") as refused:
        await sql_submit(user, spec(1, unique={"on_conflict": "refuse"}))
    assert refused.value.column_name == "unique"
    await world.claim()
    with pytest.raises(asyncpg.UniqueViolationError, match="has started"):
        await sql_submit(user, spec(1, unique={"on_conflict": "replace"}))
    await world.run_chores()
    assert len(await world.dump()) == len(before)


async def test_the_last_one_replaces_what_waits(world: World, ledger: Ledger, user: Any) -> None:
    rule = {"on_conflict": "replace", "values": ["k"]}
    ids = [await sql_submit(user, spec(number, unique=rule)) for number in range(3)]
    ids.append((await submit_one(ledger, unique(3, rule=rule))).job_id)
    ids.append(await sql_submit(user, spec(4, unique=rule)))
    await follow_up_all(ledger)
    states = [await world.job_state(job_id) for job_id in ids]
    assert states == [TaskState.KILLED] * 4 + [TaskState.PENDING]
    assert (await world.job(ids[0]))["cancel_reason"] == f"replaced by job {ids[1]}"
    await assert_audit_is_silent(ledger.database)


async def test_a_replacement_may_keep_the_start(world: World, user: Any) -> None:
    rule = {"on_conflict": "replace", "keep_start": True, "values": []}
    due = float(await user.fetchval("select extract(epoch from holdfast.now()) + 60"))
    await sql_submit(user, spec(1, unique=rule, not_before=due))
    last = await sql_submit(user, spec(2, unique=rule, not_before=due + 600))
    await world.watch()
    await world.pass_time(65)
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [last]


async def test_a_rollback_gives_the_key_back(world: World, ledger: Ledger, user: Any) -> None:
    rule = {"on_conflict": "replace", "values": []}
    first = await sql_submit(user, spec(1, unique=rule))
    before = await world.dump()
    transaction = user.transaction()
    await transaction.start()
    await sql_submit(user, spec(2, unique=rule))
    await transaction.rollback()
    assert await world.dump() == before
    [claim] = await world.claim(9)
    assert claim.task_id.job_id == first


async def test_a_repeat_under_an_idempotency_key_is_the_first_job(world: World, user: Any) -> None:
    mine = spec(1, unique={"on_conflict": "refuse"}, idempotency_key="k")
    first = await sql_submit(user, mine)
    assert await sql_submit(user, mine) == first
    assert await world.count("unique_jobs") == 1


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_of_two_who_race_the_second_waits_for_the_first(
    database_url: str, world: World, end: str
) -> None:
    first, second, watcher = [await connect(database_url) for _ in range(3)]
    await first.execute("begin")
    job_id = await sql_submit(first, spec(1))
    race = asyncio.create_task(sql_submit(second, spec(1)))
    await wait_until_blocked(watcher, second.get_server_pid())
    await first.execute(end)
    assert (await race == job_id) == (end == "commit")
    assert await world.count("jobs") == 1
    for connection in (first, second, watcher):
        await connection.close()
