"""A database that was used before is as one from the template, or it is not used again."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Database
from tests.clock import Clock
from tests.databases import TEMPLATE, give_back_database, take_database
from tests.world import World

TABLES = (
    "select oid::regclass::text from pg_class where relnamespace = 'holdfast'::regnamespace "
    "and relkind = 'r' order by 1"
)
SEQUENCES = "select sequencename, last_value from pg_sequences order by 1"


@pytest.fixture
async def used(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database in which something has happened."""
    name = await take_database(postgres)
    async with Database(postgres.url(name)) as database, Clock(postgres.url(name)) as clock:
        world = World(Ledger(database), clock)
        await world.submit([1, 2])
        [claim] = await world.claim()
        await world.pass_time(20)
        await world.succeed(claim)
    yield name
    await give_back_database(postgres, await take_database(postgres))


async def ask(postgres: EmbeddedPostgres, name: str, *queries: str) -> list[list[Any]]:
    connection = await asyncpg.connect(postgres.url(name))
    try:
        return [await connection.fetch(query) for query in queries]
    finally:
        await connection.close()


async def identify(postgres: EmbeddedPostgres, name: str) -> int:
    query = "select oid from pg_database where datname = current_database()"
    [[row]] = await ask(postgres, name, query)
    return int(row[0])


async def dump(postgres: EmbeddedPostgres, name: str) -> dict[str, list[Any]]:
    """Read all rows and sequences; when the reaper came last is another matter in each."""
    [tables] = await ask(postgres, name, TABLES)
    queries = [
        SEQUENCES,
        "select pg_get_functiondef('holdfast.now'::regproc)",
        *(
            f"select to_jsonb(t) - 'last_pass_at' from {table} as t order by 1"
            for [table] in tables
        ),
    ]
    return dict(zip(queries, await ask(postgres, name, *queries), strict=True))


async def test_what_was_used_is_as_new(postgres: EmbeddedPostgres, used: str) -> None:
    before = await identify(postgres, used)
    await give_back_database(postgres, used)
    name = await take_database(postgres)
    assert await identify(postgres, name) == before
    assert await dump(postgres, name) == await dump(postgres, TEMPLATE)
    await give_back_database(postgres, name)


async def test_whoever_is_late_finds_nothing_under_the_old_name(
    postgres: EmbeddedPostgres, used: str
) -> None:
    late = await asyncpg.connect(postgres.url(used))
    await give_back_database(postgres, used)
    await give_back_database(postgres, await take_database(postgres))
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresError)):
        await late.execute("select 1")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(postgres.url(used))


@pytest.mark.parametrize(
    "change",
    [
        "alter table holdfast.jobs disable trigger all",
        "analyze holdfast.jobs",
        "create table public.left_behind ()",
        "do $$begin execute format('alter database %I set jit = off', current_database()); end$$",
    ],
)
async def test_what_was_changed_is_not_used_again(
    postgres: EmbeddedPostgres, used: str, change: str
) -> None:
    before = await identify(postgres, used)
    await ask(postgres, used, "drop table public.test_clock", change)
    await give_back_database(postgres, used)
    name = await take_database(postgres)
    assert await identify(postgres, name) != before
    await give_back_database(postgres, name)


async def test_two_at_once_are_two(postgres: EmbeddedPostgres) -> None:
    first, second = await take_database(postgres), await take_database(postgres)
    assert await identify(postgres, first) != await identify(postgres, second)
    for name in (first, second):
        await give_back_database(postgres, name)
