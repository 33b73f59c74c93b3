"""The fence in a user's own Postgres, with every driver it is for."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.pool import NullPool

import holdfast as hf
from holdfast import fenced
from holdfast.client.context import Context
from holdfast.errors import Invalid, LeaseConflict
from tests.client.contexts import build_context
from tests.conftest import run_sql

Write = Callable[[str, Context], None]


@pytest.fixture
async def url(database_url: str) -> str:
    """A database of a user, with the table of the fence and one of its own."""
    await run_sql(database_url, fenced.CREATE_TABLE, fenced.CREATE_TABLE)
    await run_sql(database_url, "create table writes (attempt integer, place serial)")
    return database_url


@pytest.fixture
def other(url: str) -> Iterator[psycopg.Connection]:
    """A second connection, of another attempt."""
    with psycopg.connect(url) as connection:
        yield connection


def attempt(number: int, **more: Any) -> Context:
    """Be an attempt of one and the same task."""
    return build_context("http://here", attempt=number, **more)


def statement(ctx: Context) -> str:
    return f"insert into writes values ({ctx.attempt})"


def writes(url: str) -> list[int]:
    """List the attempts whose writes were kept."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("select attempt from writes order by place").fetchall()
    return [row[0] for row in rows]


def with_psycopg(url: str, ctx: Context) -> None:
    with psycopg.connect(url) as connection:
        fenced.check(connection, ctx)
        connection.execute(statement(ctx))


def with_a_cursor(url: str, ctx: Context) -> None:
    with psycopg.connect(url, row_factory=dict_row) as connection, connection.cursor() as cursor:
        fenced.check(cursor, ctx)
        cursor.execute(statement(ctx))


def with_sqlalchemy(url: str, ctx: Context) -> None:
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool
    )
    with engine.begin() as connection:
        fenced.check(connection, ctx)
        connection.execute(sqlalchemy.text(statement(ctx)))


def with_asyncpg(url: str, ctx: Context) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                await fenced.check_async(connection, ctx)
                await connection.execute(statement(ctx))
        finally:
            await connection.close()

    asyncio.run(run())


def with_async_psycopg(url: str, ctx: Context) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await fenced.check_async(connection, ctx)
            await connection.execute(statement(ctx))

    asyncio.run(run())


WAYS = [with_psycopg, with_a_cursor, with_sqlalchemy, with_asyncpg, with_async_psycopg]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@every_way
def test_a_later_attempt_shuts_an_earlier_one_out(url: str, way: Write) -> None:
    for number in (0, 0, 1, 3):
        way(url, attempt(number))
    for stale in (0, 2):
        with pytest.raises(hf.LeaseConflictError, match="is stale, a later one has written") as hit:
            way(url, attempt(stale))
        assert hit.value.task_id == "4182.7"
    way(url, attempt(3))
    assert writes(url) == [0, 0, 1, 3, 3]


@every_way
def test_tasks_and_ledgers_do_not_meet(url: str, way: Write) -> None:
    way(url, attempt(5))
    way(url, attempt(0, task_id="4182.8"))
    way(url, attempt(0, correlation_id="of another ledger"))
    assert writes(url) == [5, 0, 0]


def test_a_write_that_is_rolled_back_shuts_nobody_out(url: str) -> None:
    with psycopg.connect(url) as connection:
        fenced.check(connection, attempt(1))
        connection.rollback()
    with_psycopg(url, attempt(0))
    assert writes(url) == [0]


@pytest.mark.parametrize("committed", [True, False])
@every_way
def test_a_stale_attempt_waits_for_a_later_one_that_writes(
    url: str, other: psycopg.Connection, way: Write, committed: bool
) -> None:
    fenced.check(other, attempt(1))
    other.execute(statement(attempt(1)))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(way, url, attempt(0))
        await_lock_wait(url)
        if committed:
            other.commit()
            assert isinstance(waiting.exception(30), LeaseConflict)
        else:
            other.rollback()
            assert waiting.exception(30) is None
    assert writes(url) == ([1] if committed else [0])


def test_a_later_attempt_waits_for_a_stale_one_that_still_writes(
    url: str, other: psycopg.Connection
) -> None:
    fenced.check(other, attempt(0))
    other.execute(statement(attempt(0)))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(with_psycopg, url, attempt(1))
        await_lock_wait(url)
        other.commit()
        assert waiting.exception(30) is None
    assert writes(url) == [0, 1]
    with pytest.raises(LeaseConflict):
        fenced.check(other, attempt(0))


def await_lock_wait(url: str) -> None:
    """Wait until a connection of this database waits for another."""
    query = (
        "select from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock'"
    )
    patience = threading.Event()
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(2000):
            if connection.execute(query).fetchone() is not None:
                return
            patience.wait(0.005)
    raise AssertionError("nobody waits")


def test_no_order_of_many_attempts_lets_a_stale_one_write_later(url: str) -> None:
    def try_to_write(number: int) -> None:
        with psycopg.connect(url) as connection:
            fenced.check(connection, attempt(number))
            connection.execute(statement(attempt(number)))

    with ThreadPoolExecutor(8) as pool:
        tries = [pool.submit(try_to_write, number % 8) for number in range(64)]
    for done in tries:
        assert done.exception() is None or isinstance(done.exception(), LeaseConflict)
    kept = writes(url)
    assert kept == sorted(kept)
    assert kept[-1] == 7


def test_a_check_without_a_transaction_is_refused(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
            fenced.check(connection, attempt(0))
        with connection.transaction():
            fenced.check(connection, attempt(0))

    async def check_alone() -> None:
        connection = await asyncpg.connect(url)
        try:
            await fenced.check_async(connection, attempt(0))
        finally:
            await connection.close()

    with pytest.raises(asyncpg.NoActiveSQLTransactionError):
        asyncio.run(check_alone())


@pytest.mark.parametrize("task_id", ["1.0'; drop table writes; --", "1", "x.y", ""])
def test_what_is_no_task_id_never_gets_into_a_statement(url: str, task_id: str) -> None:
    with pytest.raises(Invalid):
        with_psycopg(url, attempt(0, task_id=task_id))
    assert writes(url) == []


@pytest.mark.parametrize("number", [-1, "0); drop table writes; --", True, None])
def test_what_is_no_attempt_never_gets_into_a_statement(url: str, number: Any) -> None:
    with pytest.raises(Invalid):
        with_psycopg(url, attempt(number))
    assert writes(url) == []


def test_any_correlation_id_is_safe(url: str) -> None:
    with_sqlalchemy(url, attempt(0, correlation_id="it's 100% :sure {} \N{SNOWMAN} $1"))
    assert writes(url) == [0]


DJANGO = """
import os
import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

options = conninfo_to_dict(os.environ["DATABASE_URL"])
postgres = {"ENGINE": "django.db.backends.postgresql", "NAME": options.pop("dbname")}
settings.configure(DATABASES={"default": postgres | {"OPTIONS": options}})
django.setup()

from django.db import DatabaseError, connection, transaction
from holdfast import fenced
from holdfast.errors import LeaseConflict
from tests.client.contexts import build_context


def write(number):
    ctx = build_context("http://here", attempt=number)
    with transaction.atomic(), connection.cursor() as cursor:
        fenced.check(cursor, ctx)
        cursor.execute("insert into writes values (%s)", [number])
    with transaction.atomic():
        fenced.check(connection, ctx)


write(1)
for problem, call in [
    (LeaseConflict, lambda: write(0)),
    (DatabaseError, lambda: fenced.check(connection, build_context("http://here"))),
]:
    try:
        call()
    except problem:
        pass
    else:
        raise AssertionError(problem)
connection.close()
"""


def test_django_is_fenced_within_atomic(url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", DJANGO],
        env=os.environ | {"DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert writes(url) == [1]
