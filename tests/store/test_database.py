"""Transactions: whole or not at all, with errors that say whether to try again."""

import asyncio
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import Unavailable
from holdfast.model.outage import Outage
from holdfast.model.work.states import TaskState
from holdfast.store.database import (
    LOCK_TIMEOUT_MS,
    Database,
    LockTimeout,
    Transaction,
    without_row,
)
from holdfast.store.statements import Statement
from tests.certificates import TestAuthority
from tests.clock import Clock
from tests.postgres_front import tls_front
from tests.store.raw import Raw
from tests.waiting import eventually, insist

INSERT = "insert into holdfast.queues values ('q', now(), 'me')"
SLEEPERS = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"


async def count_queues(lasting: Raw) -> int:
    count: int = await lasting.value("select count(*) from holdfast.queues")
    return count


async def backend_of(tx: Transaction) -> int:
    number: int = await tx.connection.fetchval("select pg_backend_pid()")
    return number


async def test_a_transaction_commits_at_its_end(database: Database, lasting: Raw) -> None:
    async with database.transaction() as tx:
        await tx.connection.execute(INSERT)
        assert await count_queues(lasting) == 0
    assert await count_queues(lasting) == 1


async def test_a_url_asks_for_tls_and_for_the_name_of_the_host(
    database_url: str, tmp_path: Path
) -> None:
    authority = TestAuthority(tmp_path / "ca")
    async with tls_front(database_url, authority.issue("db", "localhost")) as port:

        async def connect(host: str, **settings: str) -> int:
            query = urlencode({"sslmode": "verify-full", **settings})
            name = urlsplit(database_url).path
            url = f"postgresql://postgres@{host}:{port}{name}?{query}"
            async with Database(url) as database, database.connection() as connection:
                one: int = await connection.fetchval("select 1")
                return one

        trusted = str(authority.ca_file)
        assert await connect("localhost", sslrootcert=trusted) == 1
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1.* IP address mismatch"):
            await connect("127.0.0.1", sslrootcert=trusted)
        other = TestAuthority(tmp_path / "other").ca_file
        with pytest.raises(Unavailable, match="unable to get local issuer"):
            await connect("localhost", sslrootcert=str(other))


async def test_an_error_takes_everything_back(database: Database, lasting: Raw) -> None:
    async def work() -> None:
        async with database.transaction() as tx:
            await tx.connection.execute(INSERT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert await count_queues(lasting) == 0


async def test_a_refusal_at_commit_takes_everything_back(database: Database, lasting: Raw) -> None:
    async def work() -> None:
        async with database.transaction() as tx:
            await tx.connection.execute(INSERT)
            await Raw(tx.connection).bring_to(TaskState.FAILED)

    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await work()
    assert await count_queues(lasting) == 0
    async with database.transaction() as tx:
        await tx.connection.execute(INSERT)


async def test_a_cancelled_call_takes_everything_back(database: Database, lasting: Raw) -> None:
    async def work() -> None:
        async with database.transaction() as tx:
            await tx.connection.execute(INSERT)
            await tx.connection.execute("select pg_sleep(60)")

    async def sleeps() -> bool:
        return bool(await lasting.connection.fetchval(SLEEPERS))

    task = asyncio.create_task(work())
    await eventually(sleeps)  # Postgres ignores a cancel that comes before the statement
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await count_queues(lasting) == 0

    async def insert() -> None:
        async with database.transaction() as tx:
            await tx.connection.execute(INSERT)

    await insist(insert)  # Postgres may still be ending what was cancelled
    assert await count_queues(lasting) == 1


async def test_a_row_that_is_held_raises_lock_timeout(database: Database, lasting: Raw) -> None:
    job_id = await lasting.insert_job()
    query = f"select from holdfast.jobs where job_id = {job_id} for update"
    async with lasting.rolled_back():
        await lasting.run(query)
        with pytest.raises(LockTimeout, match="held by another transaction"):
            async with database.transaction() as tx:
                await tx.connection.execute(query)
    async with database.transaction() as tx:
        await tx.connection.execute(query)


async def test_settings_end_with_the_transaction(database_url: str) -> None:
    async with Database(database_url, connections_max=1) as database:
        async with database.transaction() as tx:
            assert await tx.connection.fetchval("show lock_timeout") == f"{LOCK_TIMEOUT_MS}ms"
        async with database.connection() as connection:
            assert await connection.fetchval("show lock_timeout") == "0"


async def test_what_is_acknowledged_is_as_durable_as_its_postgres_makes_it(
    database: Database,
) -> None:
    query = "select source from pg_settings where name = 'synchronous_commit'"
    async with database.transaction() as tx, database.connection() as connection:
        for source in (await tx.connection.fetchval(query), await connection.fetchval(query)):
            assert source in ("default", "configuration file", "command line")
        assert (
            await connection.fetch(
                "select proname from pg_proc where proconfig::text like '%synchronous_commit%'"
            )
            == []
        )


async def test_a_wrong_statement_stays_the_error_it_is(database: Database) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        async with database.transaction() as tx:
            await tx.connection.execute("select * from holdfast.nonsense")


async def test_a_lost_connection_is_unavailable_and_the_next_one_works(
    database: Database, lasting: Raw
) -> None:
    async def work() -> None:
        async with database.transaction() as tx:
            await tx.connection.execute(INSERT)
            await lasting.run("select pg_terminate_backend($1, 5000)", await backend_of(tx))
            await tx.connection.execute("select 1")

    with pytest.raises(Unavailable):
        await work()
    assert await count_queues(lasting) == 0
    async with database.transaction() as tx:
        await tx.connection.execute(INSERT)
    assert await count_queues(lasting) == 1


async def test_at_most_one_call_notices_that_an_idle_connection_was_cut(
    direct_url: str, lasting: Raw
) -> None:
    async with Database(direct_url, connections_max=1) as database:
        async with database.transaction() as tx:
            number = await backend_of(tx)
        await lasting.run("select pg_terminate_backend($1, 5000)", number)
        try:
            async with database.transaction() as tx:
                assert await backend_of(tx) != number
        except Unavailable:
            async with database.transaction() as tx:
                assert await backend_of(tx) != number


async def test_a_postgres_that_is_gone_is_unavailable_and_logged_once(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast.outage")
    folder, hours = tmp_path_factory.mktemp("gone") / "cluster", [0.0]
    with EmbeddedPostgres(folder, settings={"fsync": "off"}) as postgres:
        url = postgres.url("postgres")
        outage = Outage(f"Postgres at {folder}/socket", clock=lambda: hours[0])
        database = await Database(url, outage=outage).open()
    away = f"Postgres at {folder}/socket"
    for _ in range(3):
        with pytest.raises(Unavailable, match=f"^{away} cannot be used now: .") as caught:
            async with database.transaction() as tx:
                await tx.connection.execute("select 1")
        assert caught.value.is_logged
    with pytest.raises(Unavailable, match=f"^cannot connect to {away}: ."):
        await Database(url).open()
    hours[0] = 3600.0
    with EmbeddedPostgres(folder, settings={"fsync": "off"}):
        async with database.transaction() as tx:
            await tx.connection.execute("select 1")
        await database.close()
    began, ended = caplog.messages
    assert began.startswith(f"{away} is away: ")
    assert ended == f"{away} is back after 0 s"


async def test_who_is_connected_has_a_name_unless_the_url_gives_one(database_url: str) -> None:
    ask = "select application_name from pg_stat_activity where pid = pg_backend_pid()"
    for url, name in ((database_url, "holdfast"), (f"{database_url}&application_name=me", "me")):
        async with Database(url) as database, database.connection() as connection:
            assert await connection.fetchval(ask) == name


async def test_a_snapshot_sees_one_moment_and_writes_nothing(
    database: Database, lasting: Raw
) -> None:
    async with database.snapshot() as tx:
        before = await tx.connection.fetchval("select count(*) from holdfast.queues")
        await lasting.run(INSERT)
        assert await tx.connection.fetchval("select count(*) from holdfast.queues") == before
    async with database.snapshot() as tx:
        assert await tx.connection.fetchval("select count(*) from holdfast.queues") == before + 1
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        async with database.snapshot() as tx:
            await tx.connection.execute(INSERT)


async def test_a_transaction_sees_what_others_commit_meanwhile(
    database: Database, lasting: Raw
) -> None:
    async with database.transaction() as tx:
        assert await tx.connection.fetchval("select count(*) from holdfast.queues") == 0
        await lasting.run(INSERT)
        assert await tx.connection.fetchval("select count(*) from holdfast.queues") == 1


async def test_transactions_are_read_committed_whatever_the_default_is(
    database_url: str, lasting: Raw
) -> None:
    name = urlsplit(database_url).path.removeprefix("/")
    setting = f'alter database "{name}" set default_transaction_isolation'
    await lasting.run(f"{setting} = 'repeatable read'")
    level = Statement("level", "select current_setting('transaction_isolation')", ())
    async with Database(database_url) as database:
        async with database.transaction() as tx:
            row = await tx.fetch_one(level)
        assert (row and row[0], (await database.call(level))[0]) == ("read committed",) * 2
    await lasting.run(f"{setting} = 'read committed'")


async def test_the_time_is_the_databases(database: Database, clock: Clock) -> None:
    async with database.transaction() as tx:
        before = await tx.now()
    await clock.advance(3600)
    async with database.transaction() as tx:
        assert 3600 <= (await tx.now() - before).total_seconds() < 7200


async def test_an_error_does_not_show_the_row_that_was_refused(
    database: Database, lasting: Raw
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="short") as refused:
        async with database.transaction() as tx:
            await tx.connection.execute(
                "create temporary table t (a int, b int, c text constraint short check (c = ''));"
                "insert into t values (7, 8, 'a secret, with a comma')"
            )
    assert str(refused.value).endswith("Failing row contains (7, 8, and more.")
    with pytest.raises(asyncpg.UniqueViolationError, match="already exists"):
        async with database.transaction() as tx:
            await tx.connection.execute(f"{INSERT};{INSERT}")
    assert without_row(None) is None
    assert await count_queues(lasting) == 0
