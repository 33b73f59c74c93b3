"""A task completed within the user's own transaction, with every driver that the fence is for."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.pool import NullPool

import holdfast as hf
from holdfast import fenced
from holdfast.client.context import Context
from tests.client.contexts import build_context
from tests.conftest import run_sql
from tests.store.two_ways import encode
from tests.world import World, fence_of

RESULT = {"name": "50 % of ä's: %s", "n": [1, None]}
WRITE = "insert into writes values (1)"
Complete = Callable[[str, Context], None]


def with_psycopg(url: str, ctx: Context) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(WRITE)
        fenced.complete(connection, ctx, RESULT)


def with_a_cursor(url: str, ctx: Context) -> None:
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(WRITE)
        fenced.complete(cursor, ctx, RESULT)


def with_sqlalchemy(url: str, ctx: Context) -> None:
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool
    )
    with engine.begin() as connection:
        connection.exec_driver_sql(WRITE)
        fenced.complete(connection, ctx, RESULT)


def with_asyncpg(url: str, ctx: Context) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                await connection.execute(WRITE)
                await fenced.complete_async(connection, ctx, RESULT)
        finally:
            await connection.close()

    asyncio.run(run())


def with_async_psycopg(url: str, ctx: Context) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute(WRITE)
            await fenced.complete_async(connection, ctx, RESULT)

    asyncio.run(run())


WAYS = [with_psycopg, with_a_cursor, with_sqlalchemy, with_asyncpg, with_async_psycopg]


@pytest.fixture
async def url(database_url: str) -> str:
    """Holdfast's database, with a table of the user's own."""
    await run_sql(database_url, "create table public.writes (n integer)")
    return database_url


def context_of(claim: Any, **changes: Any) -> Context:
    fence = fence_of(claim)
    known = {
        "task_id": str(fence.task_id),
        "attempt": fence.attempt,
        "lease_token": fence.lease_token,
    }
    return build_context("http://here", **known | changes)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_rows_and_result_are_kept_once(world: World, url: str, way: Complete) -> None:
    await world.submit()
    [mine] = await world.claim()
    ctx = context_of(mine)
    with pytest.raises(hf.LeaseConflictError, match="attempt 7 does not hold the lease; stop"):
        await asyncio.to_thread(way, url, context_of(mine, attempt=7))
    await asyncio.to_thread(way, url, ctx)
    with pytest.raises(hf.IllegalMove, match="it is completed already"):
        await asyncio.to_thread(way, url, ctx)
    [row] = await world.clock.fetch(
        "select result::jsonb = $1::jsonb, (select count(*) from public.writes)"
        " from holdfast.tasks",
        encode(RESULT),
    )
    assert tuple(row) == (True, 1)


async def test_it_needs_a_transaction(world: World, url: str) -> None:
    await world.submit()
    [mine] = await world.claim()
    ctx = context_of(mine)
    before = await world.dump()
    refused = pytest.raises(psycopg.errors.NoActiveSqlTransaction)
    with psycopg.connect(url, autocommit=True) as connection, refused:
        fenced.complete(connection, ctx)
    assert await world.dump() == before
