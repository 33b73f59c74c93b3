"""Schema changes beside a ledger at work: who waits for whom, how long, and what is said."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import Unavailable
from holdfast.store.migrate import (
    NOTHING,
    Migration,
    Schema,
    migrate,
    read_recorded,
    split_statements,
)
from tests.conftest import run_sql
from tests.prepared import QUICK
from tests.waiting import eventually

OLD_LOCK = 0x686F6C64  # of programs that know no migration after 23
ONE = Migration(1, "one", "create table holdfast.one (id int)")
EXPANDING = Migration(
    2, "two", "-- compatible with 1\nalter table holdfast.one add column more int"
)
INDEX = Migration(
    2,
    "index",
    """-- compatible with 1
-- outside a transaction
drop index concurrently if exists holdfast.one_by_id;
do $$ begin
    insert into holdfast.one values (1);
    commit;
end $$;
create index concurrently one_by_id on holdfast.one (id);
""",
)
OLD, NEW, INDEXED = Schema((ONE,)), Schema((ONE, EXPANDING)), Schema((ONE, INDEX))
IS_VALID = "select indisvalid from pg_index where indexrelid = 'holdfast.one_by_id'::regclass"
VACUUMING = """select from pg_locks join pg_stat_activity using (pid)
 where backend_type = 'autovacuum worker' and relation = 'holdfast.one'::regclass"""
# A vacuum that would take minutes, and begins at once.
SLOW_VACUUM = """alter table holdfast.one set (autovacuum_vacuum_threshold = 0,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 100,
    autovacuum_vacuum_cost_limit = 1);
insert into holdfast.one select n from generate_series(1, 100000) n;
delete from holdfast.one"""


@pytest.fixture
async def url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database with one table."""
    name = f"online_{uuid4().hex}"
    await run_sql(postgres.url("postgres"), f"create database {name}")
    await migrate(postgres.url(name), OLD)
    yield postgres.url(name)
    await run_sql(postgres.url("postgres"), f"drop database {name} with (force)")


@asynccontextmanager
async def connected(url: str, name: str = "a test") -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url, server_settings={"application_name": name})
    try:
        yield connection
    finally:
        await connection.close()


async def versions_of(url: str) -> list[int]:
    return [step.version for step in (await read_recorded(url)).migrations]


async def test_nobody_waits_behind_a_migration_that_waits(url: str) -> None:
    waiting = "select from pg_locks where not granted and relation = 'holdfast.one'::regclass"
    async with connected(url) as slow, connected(url) as other:
        async with slow.transaction():
            await slow.fetch("select * from holdfast.one")
            migrating = asyncio.create_task(migrate(url, NEW))
            await eventually(lambda: other.fetch(waiting))
            await other.fetch("select * from holdfast.one", timeout=30)
            assert not migrating.done()
        assert await migrating == Schema((EXPANDING,))


async def test_a_migration_that_never_gets_its_lock_says_who_has_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.online.TRIES_MAX", 2)
    async with connected(url, "a report") as slow, slow.transaction():
        await slow.fetch("select * from holdfast.one")
        whose = rf"process {slow.get_server_pid()} \(a report, idle in transaction, since"
        with pytest.raises(Unavailable, match=rf"changed nothing.*{whose}.*migrate` again"):
            await migrate(url, NEW)
    assert await versions_of(url) == [1]
    assert await migrate(url, NEW) == Schema((EXPANDING,))


async def test_a_step_that_takes_too_long_lets_go_and_says_what_to_do(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.online.TRIES_MAX", 2)
    slow = Migration(2, "slow", f"{EXPANDING.text}; select pg_sleep(60)")
    with pytest.raises(Unavailable, match=r"0\.1 s.*changed nothing.*larger --hold-seconds"):
        await migrate(url, Schema((ONE, slow)), hold_seconds_max=0.1)
    assert await versions_of(url) == [1]
    assert await migrate(url, NEW) == Schema((EXPANDING,))


async def test_who_waits_too_long_for_another_migrator_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.online.TURN_SECONDS_MAX", 0.0)
    async with connected(url) as older:
        await older.execute(f"select pg_advisory_lock({OLD_LOCK})")
        with pytest.raises(Unavailable, match=r"another `holdfast db migrate`.*run this again"):
            await migrate(url, NEW)
    assert await versions_of(url) == [1]
    assert await migrate(url, NEW) == Schema((EXPANDING,))


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
async def test_an_index_is_built_outside_a_transaction_by_one_of_many(
    url: str, isolation: str
) -> None:
    name = url.partition("?")[0].rpartition("/")[2]
    await run_sql(url, f"alter database {name} set default_transaction_isolation = '{isolation}'")
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(migrate(url, INDEXED) for _ in range(3)))
    assert sorted(answers) == [NOTHING, NOTHING, Schema((INDEX,))]
    async with connected(url) as connection:
        assert await connection.fetchval(IS_VALID) is True


async def test_an_older_migrator_that_waits_with_a_snapshot_is_not_kept_waiting(url: str) -> None:
    """The index would wait for its snapshot, and it for the migrator of the index."""
    async with connected(url) as slow, connected(url) as older, connected(url) as look:
        async with slow.transaction():
            await slow.execute("insert into holdfast.one values (2)")
            migrating = asyncio.create_task(migrate(url, INDEXED))
            building = (
                "select from pg_stat_activity where query like 'create index%' and state = 'active'"
            )
            await eventually(lambda: look.fetch(building))
            await older.execute(f"select pg_advisory_lock({OLD_LOCK})", timeout=30)
            await older.execute(f"select pg_advisory_unlock({OLD_LOCK})")
        async with asyncio.timeout(60):
            assert await migrating == Schema((INDEX,))


async def test_what_failed_outside_a_transaction_runs_again_from_its_beginning(url: str) -> None:
    await run_sql(url, "create unique index taken on holdfast.one (id)")
    await run_sql(url, "insert into holdfast.one values (1)")
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate(url, INDEXED)
    assert await versions_of(url) == [1]
    await run_sql(url, "drop index holdfast.taken")
    assert await migrate(url, INDEXED) == Schema((INDEX,))


async def test_vacuum_in_the_background_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It only does so for who waits longer than a brief step ever would."""
    monkeypatch.setattr("holdfast.store.online.TRIES_MAX", 3)
    settings = {**QUICK, "autovacuum_naptime": "1s"}
    with EmbeddedPostgres(tmp_path / "postgres", settings=settings) as postgres:
        url = postgres.url("postgres")
        await migrate(url, OLD)
        await run_sql(url, SLOW_VACUUM)
        async with connected(url) as look:
            await eventually(lambda: look.fetch(VACUUMING), seconds=60)
            assert await migrate(url, NEW) == Schema((EXPANDING,))


def test_a_body_between_dollar_signs_is_one_statement() -> None:
    statements = list(split_statements(INDEX.text))
    assert [text.strip().split("\n")[-1][:16] for text in statements] == [
        "drop index concu",
        "end $$;",
        "create index con",
    ]
    assert list(split_statements("select 1;\n-- the end\n\n")) == ["select 1;\n"]
