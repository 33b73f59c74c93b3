"""Migrations: once, whole, in order, and never against a schema that is not ours."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import SchemaMismatch, Unavailable
from holdfast.store.migrate import (
    NOTHING,
    Applied,
    Definition,
    Migration,
    Recorded,
    Schema,
    check_schema,
    compare,
    load_schema,
    migrate,
    read_recorded,
)
from tests.clock import Clock
from tests.conftest import run_sql
from tests.databases import connect
from tests.pgbouncer import Poolers
from tests.store.raw import Raw
from tests.store.schema_text import read_schema
from tests.store.squawk import LAST_BEFORE_ROLLING_UPGRADES

ONE = Migration(1, "one", "create table holdfast.one (id int)")
TWO = Migration(2, "two", "create table holdfast.two (id int); insert into holdfast.two values (1)")
BROKEN = Migration(2, "two", "create table holdfast.two (id int); select 1 / 0")
EXPANDING = Migration(
    2, "two", "-- compatible with 1\nalter table holdfast.one add column more int"
)
BOOKKEEPING = {"schema_versions", "schema_definitions"}


def returning(number: int) -> Definition:
    """Define a function that returns a number."""
    text = "create or replace function holdfast.number() returns int language sql"
    return Definition("functions/number", f"{text} as 'select {number}'")


@pytest.fixture
async def empty_url(postgres: EmbeddedPostgres, poolers: Poolers) -> AsyncIterator[str]:
    """A database with nothing in it."""
    name = f"empty_{uuid4().hex}"
    await run_sql(postgres.url("postgres"), f"create database {name}")
    yield poolers.url(postgres.url(name))
    await run_sql(postgres.url("postgres"), f"drop database {name} with (force)")


async def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def tables_of(url: str) -> set[object]:
    rows = await fetch(url, "select tablename from pg_tables where schemaname = 'holdfast'")
    return {row[0] for row in rows}


def test_a_migration_says_which_programs_go_on_beside_it() -> None:
    for step in load_schema().migrations[LAST_BEFORE_ROLLING_UPGRADES:]:
        assert step.compatible_with is not None, f"{step.name}: begin it with -- compatible with N"
        assert step.compatible_with < step.version


def test_our_migrations_are_numbered_from_one_without_a_gap() -> None:
    versions = [migration.version for migration in load_schema().migrations]
    assert versions == list(range(1, len(versions) + 1))


async def test_an_empty_database_gets_everything_once(empty_url: str) -> None:
    assert await read_recorded(empty_url) == Recorded((), {})
    assert await migrate(empty_url) == load_schema()
    await check_schema(empty_url)
    assert await migrate(empty_url) == NOTHING
    assert {"jobs", "tasks", "events"} <= await tables_of(empty_url)


async def test_only_what_is_missing_is_applied(empty_url: str) -> None:
    assert await migrate(empty_url, Schema((ONE,))) == Schema((ONE,))
    with pytest.raises(SchemaMismatch, match=r"lacks migration 2 \(two\).*holdfast db migrate"):
        await check_schema(empty_url, Schema((ONE, TWO)))
    assert await migrate(empty_url, Schema((ONE, TWO))) == Schema((TWO,))
    await check_schema(empty_url, Schema((ONE, TWO)))
    applied = (Applied(1, "one", ONE.checksum), Applied(2, "two", TWO.checksum))
    assert await read_recorded(empty_url) == Recorded(applied, {})


async def test_many_migrators_at_once_do_no_harm(empty_url: str) -> None:
    answers = await asyncio.gather(*(migrate(empty_url, Schema((ONE, TWO))) for _ in range(4)))
    applied = [step for answer in answers for step in answer.migrations]
    assert sorted(applied, key=lambda step: step.version) == [ONE, TWO]  # each by one of them
    assert await fetch(empty_url, "select id from holdfast.two") == [(1,)]


async def test_two_migrators_of_the_real_schema_do_no_harm(empty_url: str) -> None:
    answers = await asyncio.gather(migrate(empty_url), migrate(empty_url))
    steps = [step for answer in answers for step in answer.migrations]
    assert tuple(sorted(steps, key=lambda step: step.version)) == load_schema().migrations
    definitions = [answer.definitions for answer in answers]
    assert sorted(definitions) == [(), load_schema().definitions]
    await check_schema(empty_url)


async def test_a_failing_migration_leaves_nothing_behind(empty_url: str) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty_url, Schema((ONE, BROKEN)))
    assert await tables_of(empty_url) == BOOKKEEPING | {"one"}
    assert [step.version for step in (await read_recorded(empty_url)).migrations] == [1]
    assert await migrate(empty_url, Schema((ONE, TWO))) == Schema((TWO,))


async def test_a_migration_that_cannot_be_recorded_leaves_nothing_behind(empty_url: str) -> None:
    record = "insert into holdfast.schema_versions values (2, 'twin', '')"
    twin = Migration(2, "twin", f"{TWO.text}; {record}")
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate(empty_url, Schema((ONE, twin)))
    assert await tables_of(empty_url) == BOOKKEEPING | {"one"}


async def test_an_older_program_refuses_a_newer_schema_and_says_what_to_do(empty_url: str) -> None:
    await migrate(empty_url, Schema((ONE, TWO)))
    before = await tables_of(empty_url)
    with pytest.raises(SchemaMismatch, match=r"migration 2 \(two\).*upgrade holdfast"):
        await migrate(empty_url, Schema((ONE,)))
    with pytest.raises(SchemaMismatch, match=r"migration 2 \(two\).*upgrade holdfast"):
        await check_schema(empty_url, Schema((ONE,)))
    assert await tables_of(empty_url) == before


async def test_a_migration_whose_text_changed_is_refused(empty_url: str) -> None:
    await migrate(empty_url, Schema((ONE,)))
    edited = Migration(1, "one", ONE.text + " -- edited")
    for run in (migrate, check_schema):
        with pytest.raises(SchemaMismatch, match=r"migration 1 \(one\).*another text"):
            await run(empty_url, Schema((edited, TWO)))
    assert "two" not in await tables_of(empty_url)


async def test_a_database_that_was_never_migrated_is_refused(empty_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="run `holdfast db migrate`"):
        await check_schema(empty_url)


async def test_nobody_at_the_address_is_unavailable(unused_tcp_port: int) -> None:
    url = f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none"
    for run in (migrate, check_schema, read_recorded):
        address = f"127.0.0.1:{unused_tcp_port}"
        with pytest.raises(Unavailable, match=f"^cannot connect to Postgres at {address}: "):
            await run(url)


def test_what_is_missing_is_told_in_order() -> None:
    ours = Schema((ONE, TWO), (returning(1), returning(2)))
    assert compare(Recorded((), {}), ours) == ours
    applied = (Applied(1, "one", ONE.checksum),)
    assert compare(Recorded(applied, {}), ours).migrations == (TWO,)


async def test_a_definition_is_applied_again_when_its_text_changes(empty_url: str) -> None:
    for number in (1, 2):
        schema = Schema((ONE,), (returning(number),))
        assert (await migrate(empty_url, schema)).definitions == schema.definitions
        assert await fetch(empty_url, "select holdfast.number()") == [(number,)]
        await check_schema(empty_url, schema)
        assert await migrate(empty_url, schema) == NOTHING
    with pytest.raises(SchemaMismatch, match=r"functions/number; run `holdfast db migrate`"):
        await check_schema(empty_url, Schema((ONE,), (returning(1),)))


async def test_definitions_are_applied_all_or_none(empty_url: str) -> None:
    broken = Definition("views/broken", "select 1 / 0")
    await migrate(empty_url, Schema((ONE,), (returning(1),)))
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty_url, Schema((ONE, TWO), (returning(2), broken)))
    assert await fetch(empty_url, "select holdfast.number()") == [(1,)]
    recorded = await read_recorded(empty_url)
    assert recorded.definitions == {"functions/number": returning(1).checksum}
    assert [step.version for step in recorded.migrations] == [1, 2]


async def test_a_file_that_was_renamed_is_forgotten_under_its_old_name(empty_url: str) -> None:
    old = returning(1)
    new = Definition("functions/count", old.text)
    await migrate(empty_url, Schema((ONE,), (old,)))
    assert (await migrate(empty_url, Schema((ONE,), (new,)))).definitions == (new,)
    assert (await read_recorded(empty_url)).definitions == {new.name: new.checksum}


async def test_grants_outlive_another_application(database_url: str) -> None:
    rights = (
        "select relacl::text from pg_class where oid = 'holdfast.event_log'::regclass union all "
        "select proacl::text from pg_proc where oid = 'holdfast.submit'::regproc"
    )
    try:
        await run_sql(
            database_url,
            "create role reader_of_views",
            "grant select on holdfast.event_log to reader_of_views",
            "grant execute on function holdfast.submit to reader_of_views",
        )
        before = await fetch(database_url, rights)
        await run_sql(database_url, "update holdfast.schema_definitions set checksum = 'other'")
        assert await migrate(database_url) == Schema((), load_schema().definitions)
        assert await fetch(database_url, rights) == before
        assert "reader_of_views" in str(before)
    finally:
        await run_sql(database_url, "drop owned by reader_of_views", "drop role reader_of_views")


async def test_all_definitions_can_be_applied_again_and_change_nothing(
    lasting: Raw, database_url: str
) -> None:
    await lasting.run("select holdfast.add_partition(10001, 20001)")
    before = await read_schema(database_url)
    await run_sql(database_url, "update holdfast.schema_definitions set checksum = 'other'")
    await migrate(database_url)
    assert await read_schema(database_url) == before


async def test_a_clock_that_a_test_has_replaced_stays(database_url: str) -> None:
    async with Clock(database_url) as clock:
        await clock.advance(3600)
        await run_sql(database_url, "update holdfast.schema_definitions set checksum = 'other'")
        await migrate(database_url)
        [row] = await clock.fetch("select holdfast.now() > clock_timestamp() + interval '59 min'")
        assert row[0] is True


async def test_a_database_from_before_the_first_release_is_refused(empty_url: str) -> None:
    """Its tables are as good as ours, but nothing leads from its migrations to these."""
    await migrate(empty_url, Schema((ONE,)))
    await run_sql(empty_url, "update holdfast.schema_versions set name = 'ledger'")
    await run_sql(empty_url, "drop table holdfast.schema_definitions")
    before = await tables_of(empty_url)
    for run in (migrate, check_schema):
        with pytest.raises(
            SchemaMismatch, match=r"first release.*drop schema.*holdfast db migrate"
        ):
            await run(empty_url)
    assert await tables_of(empty_url) == before


async def test_an_older_program_does_not_put_its_definitions_back(empty_url: str) -> None:
    await migrate(empty_url, Schema((ONE, TWO), (returning(2),)))
    with pytest.raises(SchemaMismatch, match=r"migration 2 \(two\).*upgrade holdfast"):
        await migrate(empty_url, Schema((ONE,), (returning(1),)))
    assert await fetch(empty_url, "select holdfast.number()") == [(2,)]


async def test_an_older_program_goes_on_beside_a_schema_that_allows_it(empty_url: str) -> None:
    older = Schema((ONE,), (returning(1),))
    await migrate(empty_url, older)
    await migrate(empty_url, Schema((ONE, EXPANDING), (returning(2),)))
    await check_schema(empty_url, older)
    assert await migrate(empty_url, older) == NOTHING
    assert await fetch(empty_url, "select holdfast.number()") == [(2,)]
    contracting = Migration(3, "three", "-- compatible with 2\nalter table holdfast.one drop more")
    await migrate(empty_url, Schema((ONE, EXPANDING, contracting), (returning(2),)))
    await check_schema(empty_url, Schema((ONE, EXPANDING), (returning(1),)))
    with pytest.raises(SchemaMismatch, match=r"migration 3 \(three\).*upgrade holdfast"):
        await check_schema(empty_url, older)


async def test_a_database_of_before_says_nothing_of_older_programs(empty_url: str) -> None:
    await migrate(empty_url, Schema((ONE, EXPANDING)))
    await run_sql(empty_url, "alter table holdfast.schema_versions drop column compatible_with")
    with pytest.raises(SchemaMismatch, match="upgrade holdfast"):
        await check_schema(empty_url, Schema((ONE,)))
    await check_schema(empty_url, Schema((ONE, EXPANDING)))
    third = Migration(3, "three", "-- compatible with 2\nselect 1")
    assert await migrate(empty_url, Schema((ONE, EXPANDING, third))) == Schema((third,))
    await check_schema(empty_url, Schema((ONE, EXPANDING)))
