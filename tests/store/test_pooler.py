"""Behind a real PgBouncer in transaction mode, as decision 3 has it."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.operations.upkeep.audit import audit
from holdfast.store.database import Database
from holdfast.store.migrate import check_schema, migrate
from holdfast.store.pooler import find_pool_mode
from holdfast.store.statements import load_statements
from tests.conftest import run_sql
from tests.databases import connect
from tests.pgbouncer import running_pgbouncer

_CLOCK = load_statements("clock")["read_clock"]


@pytest.fixture
def pooled_url(postgres: EmbeddedPostgres, direct_url: str) -> Iterator[str]:
    """The test's database behind a pooler with two connections for everybody."""
    with running_pgbouncer(postgres.url("postgres"), connections=2) as pooler:
        yield pooler.url(direct_url)


async def test_a_pooler_is_told_from_postgres_itself(direct_url: str, pooled_url: str) -> None:
    async with Database(direct_url) as direct, Database(pooled_url) as pooled:
        assert (direct.is_pooled, pooled.is_pooled) == (False, True)


async def test_many_share_few_connections_and_find_no_statement_of_others(pooled_url: str) -> None:
    async def read(database: Database) -> None:
        for _ in range(5):
            async with database.transaction() as tx:
                await tx.now()
            await database.fetch(_CLOCK)

    async with Database(pooled_url) as one, Database(pooled_url) as two:
        await asyncio.gather(*(read(database) for database in (one, two) * 8))


async def test_migrators_at_once_bring_the_schema_up_once(
    postgres: EmbeddedPostgres, pooled_url: str
) -> None:
    await run_sql(postgres.url("postgres"), "create database empty_behind_pooler")
    url = pooled_url.replace(pooled_url.split("/")[3].split("?")[0], "empty_behind_pooler")
    one, two = await asyncio.gather(migrate(url), migrate(url))
    numbers = [step.version for step in (*one.migrations, *two.migrations)]
    assert len(numbers) == len(set(numbers)) > 0
    await check_schema(url)


async def test_an_audit_leaves_no_statement_to_the_next_who_gets_its_connection(
    postgres: EmbeddedPostgres, direct_url: str
) -> None:
    with running_pgbouncer(postgres.url("postgres"), connections=1) as pooler:
        async with Database(pooler.url(direct_url), connections_max=1) as database:
            assert [finding async for finding in audit(database)] == []
        connection = await connect(pooler.url(direct_url))
        left = await connection.fetch("select name from pg_prepared_statements")
        await connection.close()
    assert left == []


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
async def test_how_a_pooler_shares_is_told_from_what_it_does(
    postgres: EmbeddedPostgres, direct_url: str, mode: str
) -> None:
    assert await find_pool_mode(direct_url) == "none"
    more = f"pool_mode = {mode}"
    with running_pgbouncer(postgres.url("postgres"), more=more) as pooler:
        url = pooler.url(direct_url)
        assert await find_pool_mode(url) == mode
        # Another one who looks in step, and would take every time what is to be shared.
        for _ in range(30):
            async with asyncio.TaskGroup() as pair:
                looks = [pair.create_task(find_pool_mode(url)) for _ in range(2)]
            assert {look.result() for look in looks} == {mode}
