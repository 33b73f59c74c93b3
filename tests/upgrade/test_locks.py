"""While a step of the schema waits for a lock that somebody holds, everybody else gets through.

Each migration after the version before this one, and the definitions, on tables of their own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast.model.work.states import TaskState
from holdfast.store.migrate import Schema, check_schema, load_schema, migrate
from tests.store.raw import Raw
from tests.upgrade.previous import load_previous_schema
from tests.waiting import eventually

OURS = load_schema()
RELATIONS = """
select relname from pg_class
 where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p') and not relispartition"""
# Those that writers wait for.
LOCKED = f"""
select distinct relname from pg_locks join pg_class on pg_class.oid = relation
 where pid = pg_backend_pid() and relname in ({RELATIONS})
   and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
 order by relname"""
WAITING = """
select from pg_locks where not granted and relation = ('holdfast.' || $1)::regclass"""


def list_steps(before: Schema) -> list[Schema]:
    """List the schemas that lead from an older version to ours, each a step from the one before."""
    steps = OURS.migrations[len(before.migrations) :]
    return [Schema(OURS.migrations[: step.version], before.definitions) for step in steps] + [OURS]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Raw]:
    connection = await asyncpg.connect(url, command_timeout=60)
    try:
        yield Raw(connection)
    finally:
        await connection.close()


async def find_locked(raw: Raw, before: Schema, after: Schema) -> list[str]:
    """List the tables that a step keeps writers from, by taking it and forgetting that."""
    known = {definition.name: definition.checksum for definition in before.definitions}
    new = after.migrations[len(before.migrations) :]
    # What runs outside a transaction is made for writers to go on; squawk sees that it is.
    steps: list[Any] = [step for step in new if not step.statements_outside]
    steps += [each for each in after.definitions if known.get(each.name) != each.checksum]
    async with raw.rolled_back():
        there = {row[0] for row in await raw.rows(RELATIONS)}
        for step in steps:
            await raw.run(step.text)
        return [row[0] for row in await raw.rows(LOCKED) if row[0] in there]


async def write_everywhere(raw: Raw) -> None:
    """Take a job through its life, and ask for each table as whoever writes to it does."""
    job_id = await raw.insert_whole_job()
    await raw.insert_lease(job_id)
    for state in (TaskState.ASSIGNED, TaskState.RUNNING):
        await raw.move(job_id, state)
    await raw.run("update holdfast.leases set expires_at = expires_at where job_id = $1", job_id)
    await raw.run("delete from holdfast.leases where job_id = $1", job_id)
    await raw.insert_attempt(job_id)
    await raw.move(job_id, TaskState.SUCCEEDED)
    for row in await raw.rows(RELATIONS):
        await raw.run(f"delete from holdfast.{row[0]} where false")


async def step_while_others_hold(url: str, tables: list[str], after: Schema) -> None:
    """Take a step while somebody writes to each table in turn, and nobody else notices.

    The next table is taken before the last one is let go, so the step waits for all of them.
    """
    async with AsyncExitStack() as stack:
        look, other, *holders = [await stack.enter_async_context(connected(url)) for _ in range(4)]
        migrating: asyncio.Task[Schema] | None = None
        held: Any = None
        for number, table in enumerate(tables):
            holder = holders[number % 2]
            transaction = holder.connection.transaction()
            await transaction.start()
            await holder.run(f"delete from holdfast.{table} where false")
            if held is not None:
                await held.rollback()
            held = transaction
            migrating = migrating or asyncio.create_task(migrate(url, after))
            await eventually(partial(look.rows, WAITING, table))
            await write_everywhere(other)
            assert not migrating.done()
        await held.rollback()
        assert migrating is not None
        await migrating


async def test_nobody_waits_behind_a_step_of_ours_that_waits(
    previous: Path, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.online.TRIES_MAX", 10_000)
    before = load_previous_schema(previous)
    await migrate(empty_url, before)
    for after in list_steps(before):
        async with connected(empty_url) as raw:
            tables = await find_locked(raw, before, after)
        if tables:
            await step_while_others_hold(empty_url, tables, after)
        else:
            await migrate(empty_url, after)
        before = after
    await check_schema(empty_url)
