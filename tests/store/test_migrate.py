"""Migrations: once, whole, in order, and never against a schema that is not ours."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import SchemaMismatch, Unavailable
from holdfast.store.migrate import (
    Applied,
    Migration,
    check_schema,
    compare,
    load_migrations,
    migrate,
    read_applied,
)
from tests.conftest import run_sql
from tests.store.raw import Raw

ONE = Migration(1, "one", "create table holdfast.one (id int)")
TWO = Migration(2, "two", "create table holdfast.two (id int); insert into holdfast.two values (1)")
BROKEN = Migration(2, "two", "create table holdfast.two (id int); select 1 / 0")


@pytest.fixture
async def empty_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database with nothing in it."""
    name = f"empty_{uuid4().hex}"
    await run_sql(postgres.url("postgres"), f"create database {name}")
    yield postgres.url(name)
    await run_sql(postgres.url("postgres"), f"drop database {name} with (force)")


async def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def tables_of(url: str) -> set[object]:
    rows = await fetch(url, "select tablename from pg_tables where schemaname = 'holdfast'")
    return {row[0] for row in rows}


def test_our_migrations_are_numbered_from_one_without_a_gap() -> None:
    versions = [migration.version for migration in load_migrations()]
    assert versions == list(range(1, len(versions) + 1))


async def test_an_empty_database_gets_everything_once(empty_url: str) -> None:
    assert await read_applied(empty_url) == []
    assert await migrate(empty_url) == list(load_migrations())
    await check_schema(empty_url)
    assert await migrate(empty_url) == []
    assert {"jobs", "tasks", "events"} <= await tables_of(empty_url)


async def test_only_what_is_missing_is_applied(empty_url: str) -> None:
    assert await migrate(empty_url, (ONE,)) == [ONE]
    with pytest.raises(SchemaMismatch, match=r"lacks migration 2 \(two\).*holdfast db migrate"):
        await check_schema(empty_url, (ONE, TWO))
    assert await migrate(empty_url, (ONE, TWO)) == [TWO]
    await check_schema(empty_url, (ONE, TWO))
    applied = await read_applied(empty_url)
    assert applied == [Applied(1, "one", ONE.checksum), Applied(2, "two", TWO.checksum)]


async def test_many_migrators_at_once_do_no_harm(empty_url: str) -> None:
    answers = await asyncio.gather(*(migrate(empty_url, (ONE, TWO)) for _ in range(4)))
    assert sorted(map(len, answers)) == [0, 0, 0, 2]
    assert await fetch(empty_url, "select id from holdfast.two") == [(1,)]


async def test_two_migrators_of_the_real_schema_do_no_harm(empty_url: str) -> None:
    answers = await asyncio.gather(migrate(empty_url), migrate(empty_url))
    assert sorted(map(len, answers)) == [0, len(load_migrations())]
    await check_schema(empty_url)


async def test_a_failing_migration_leaves_nothing_behind(empty_url: str) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty_url, (ONE, BROKEN))
    assert await tables_of(empty_url) == {"schema_versions", "one"}
    assert [step.version for step in await read_applied(empty_url)] == [1]
    assert await migrate(empty_url, (ONE, TWO)) == [TWO]


async def test_a_migration_that_cannot_be_recorded_leaves_nothing_behind(empty_url: str) -> None:
    twin = Migration(1, "twin", TWO.text)
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate(empty_url, (ONE, twin))
    assert await tables_of(empty_url) == {"schema_versions", "one"}


async def test_an_older_program_refuses_a_newer_schema_and_says_what_to_do(empty_url: str) -> None:
    await migrate(empty_url, (ONE, TWO))
    before = await tables_of(empty_url)
    with pytest.raises(SchemaMismatch, match=r"migration 2 \(two\).*upgrade holdfast"):
        await migrate(empty_url, (ONE,))
    with pytest.raises(SchemaMismatch, match=r"migration 2 \(two\).*upgrade holdfast"):
        await check_schema(empty_url, (ONE,))
    assert await tables_of(empty_url) == before


async def test_a_migration_whose_text_changed_is_refused(empty_url: str) -> None:
    await migrate(empty_url, (ONE,))
    edited = Migration(1, "one", ONE.text + " -- edited")
    for run in (migrate, check_schema):
        with pytest.raises(SchemaMismatch, match=r"migration 1 \(one\).*another text"):
            await run(empty_url, (edited, TWO))
    assert "two" not in await tables_of(empty_url)


async def test_a_database_that_was_never_migrated_is_refused(empty_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="run `holdfast db migrate`"):
        await check_schema(empty_url)


async def test_nobody_at_the_address_is_unavailable(unused_tcp_port: int) -> None:
    url = f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none"
    for run in (migrate, check_schema, read_applied):
        with pytest.raises(Unavailable, match="cannot connect to Postgres"):
            await run(url)


def test_what_is_missing_is_told_in_order() -> None:
    assert compare([], (ONE, TWO)) == [ONE, TWO]
    assert compare([Applied(1, "one", ONE.checksum)], (ONE, TWO)) == [TWO]


async def test_new_constraints_do_not_read_all_jobs_that_are_there(database_url: str) -> None:
    query = (
        "select conname::text from pg_constraint where conrelid = 'holdfast.jobs'::regclass "
        "and contype = 'c' and not convalidated order by 1"
    )
    assert await fetch(database_url, query) == [
        ("a_job_is_released_when_nothing_is_unmet",),
        ("a_trace_parent_is_short",),
    ]


async def test_jobs_and_output_that_were_there_before_are_listed(empty_url: str) -> None:
    await migrate(empty_url, tuple(step for step in load_migrations() if step.version < 15))
    connection = await asyncpg.connect(empty_url)
    try:
        raw = Raw(connection)
        pending, failed, succeeded = [await raw.insert_job() for _ in range(3)]
        await raw.insert_job(shown=False)
        await raw.run("set session_replication_role = replica")
        for job_id, state in ((failed, 5), (succeeded, 4)):
            await raw.run(
                "update holdfast.jobs set state = $2, finished_at = now() where job_id = $1",
                job_id,
                state,
            )
        log = "insert into holdfast.logs (job_id, task_index, attempt, start_offset, content)"
        await raw.run(f"{log} values ({failed}, 0, 0, 0, 'x')")
        await migrate(empty_url)
        await raw.run(f"{log} values ({failed}, 0, 0, 1, 'y')")
    finally:
        await connection.close()
    kept = await fetch(empty_url, "select job_id, state from holdfast.job_states order by job_id")
    assert kept == [(pending, 1), (failed, 5)]
    old = "select stored_at = 'epoch' from holdfast.logs order by start_offset"
    assert await fetch(empty_url, old) == [(True,), (False,)]
