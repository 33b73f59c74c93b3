"""Connections and transactions: the only place that opens either."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from datetime import datetime
from typing import Any, Self
from urllib.parse import urlsplit

import asyncpg

from holdfast.errors import Invalid, Unavailable
from holdfast.model.addresses import postgres_address
from holdfast.model.outage import Outage
from holdfast.store.hosts import Hosts
from holdfast.store.statements import Statement, load_statements

LOCK_TIMEOUT_MS = 250
IDLE_TIMEOUT_MS = 10_000  # whoever froze in mid-transaction must not hold its locks for ever
ROLLBACK_SECONDS_MAX = 5
PLAN_SECONDS_MAX = 30
STATEMENTS_MAX = 100  # prepared, of each connection
_CLOCK = load_statements("clock")

# Every hot statement joins a short list of ids with tables by their keys, in the order written. The
# planner must find nothing cleverer while a table is new and looks small: its plan would be kept
# while the table grows. Sent with BEGIN, this costs no round trip and works behind a pooler that
# shares connections between transactions.
_BEGIN = f"""begin isolation level read committed;
set local lock_timeout = {LOCK_TIMEOUT_MS};
set local idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS};
set local plan_cache_mode = force_generic_plan;
set local jit = off;
set local enable_seqscan = off;
set local enable_hashjoin = off;
set local enable_mergejoin = off;
set local join_collapse_limit = 1;
set local random_page_cost = 0;
set local seq_page_cost = 0"""

_NOT_PRIMARY = asyncpg.TargetServerAttributeNotMatched
NOT_PRIMARY = (
    "no primary is found there, or not what target_session_attrs asks for; wait for the end of the "
    "failover, or promote a standby"
)
_ROW = "Failing row contains ("
# Who waits for a row has to see what the one before him has done, whatever the default is.
_LEVEL = {"default_transaction_isolation": "read committed"}
_BEGIN_SNAPSHOT = "begin isolation level repeatable read read only"


_AWAY = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.InsufficientResourcesError,  # too many connections, no memory, no disk
    asyncpg.SerializationError,  # a standby ends reads that its primary's vacuum is in the way of
)


class LockTimeout(Unavailable):
    """A row was held by somebody else for too long; the transaction changed nothing."""

    code = "busy"


class JobChanged(Exception):
    """A job ended or was cancelled after its tasks were read: the transaction has to run again."""


class KeyTaken(Exception):
    """A request came under a key that was used before: the transaction has to look there first."""


# What functions of the schema raise by these codes has changed nothing.
_RAISED: dict[str | None, type[Exception]] = {"HF001": JobChanged, "HF002": KeyTaken}


class Transaction:
    """One open transaction."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        # Whatever the one who opened it wants to hear of once it has committed.
        self.news: Any = None

    async def fetch(self, statement: Statement, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        rows: list[Any] = await self.connection.fetch(statement.text, *statement.arguments(values))
        return rows

    async def fetch_one(self, statement: Statement, **values: Any) -> Any | None:
        """Run a statement and return its first row, if any."""
        return await self.connection.fetchrow(statement.text, *statement.arguments(values))

    async def stream(
        self, statement: Statement, *, rows_ahead: int, seconds_max: float, **values: Any
    ) -> AsyncIterator[Any]:
        """Run a statement and yield its rows through a cursor, a few in memory at a time."""
        # Without a name: a pooler would leave a named one to the next who gets its connection.
        prepared = await self.connection.prepare(statement.text, name="", timeout=seconds_max)
        arguments = statement.arguments(values)
        async for row in prepared.cursor(*arguments, prefetch=rows_ahead, timeout=seconds_max):
            yield row

    async def now(self) -> datetime:
        """Read the database's clock; call it after the locks are taken."""
        row = await self.fetch_one(_CLOCK["read_clock"])
        assert row is not None
        now: datetime = row[0]
        return now


class Database:
    """A pool of connections to one Postgres."""

    def __init__(
        self,
        url: str,
        *,
        connections_max: int = 8,
        program: str = "holdfast",
        outage: Outage | None = None,
    ) -> None:
        self.url = url
        self._hosts = Hosts(url)
        self._connections_max = connections_max
        self._program = program
        self._outage = outage or database_outage(url)
        self._connecting: set[asyncio.Timeout] = set()
        self._is_broken_off = False
        self._pool: Any = None
        self.is_pooled = False

    async def open(self) -> Self:
        """Connect; raises Unavailable if nobody answers."""
        async with connecting(self.url), self._breakable():
            settings = session_settings(self.url, self._program)
            self.is_pooled = await find_pooler(self._hosts, settings)
            if not self.is_pooled:  # which would refuse to connect
                settings |= _LEVEL
            self._pool = await asyncpg.create_pool(
                self.url,
                connect=self._connect,
                server_settings=settings,
                min_size=0,
                max_size=self._connections_max,
                max_inactive_connection_lifetime=0,
                reset=_keep_session,
                command_timeout=60,
                # A plan made while a table was tiny is not kept for long after it has grown.
                max_cached_statement_lifetime=PLAN_SECONDS_MAX,
                # Behind a pooler the next transaction may find another connection, without them.
                statement_cache_size=0 if self.is_pooled else STATEMENTS_MAX,
            )
        return self

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    def break_off(self) -> None:
        """Give up every connection: what waits for an answer fails, and whatever is asked next."""
        self._is_broken_off = True
        for limit in self._connecting:
            limit.reschedule(0)
        if self._pool is not None:
            self._pool.terminate()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Run a block in one transaction; a lock that cannot be had raises LockTimeout."""
        async with self._begin(_BEGIN) as tx:
            yield tx

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        """Run a block of reads that all see the same moment."""
        async with self._begin(_BEGIN_SNAPSHOT) as tx:
            yield tx

    async def fetch(self, statement: Statement, **values: Any) -> list[Any]:
        """Run one statement that needs no transaction around it."""
        async with self._translated(), self._pool.acquire() as connection:
            rows: list[Any] = await connection.fetch(statement.text, *statement.arguments(values))
            self._outage.note_success()
            return rows

    async def call(self, statement: Statement, **values: Any) -> Any:
        """Run one statement that writes, and is a transaction of its own; returns its only row."""
        async with self._translated(), self._pool.acquire() as connection:
            arguments = statement.arguments(values)
            with _leaving_standby(connection):
                row = await connection.fetchrow(statement.text, *arguments)
            self._outage.note_success()
            return row

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a bare connection, for listening and for schema changes."""
        async with self._pool.acquire() as connection:
            yield connection

    @asynccontextmanager
    async def listening(
        self, channel: str, hear: Callable[..., None]
    ) -> AsyncIterator[asyncio.Future[None]]:
        """Hear a channel for the time of a block; the future is done when the connection is lost.

        The connection is not of the pool, and has to be a direct one: behind a pooler that shares
        connections between transactions, nothing would be heard.
        """
        assert not self.is_pooled, "a pooler does not pass on what is heard"
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def lose(_: Any) -> None:
            if not lost.done():
                lost.set_result(None)

        async with self._translated():
            settings = session_settings(self.url, self._program)
            connection = await self._hosts.connect(server_settings=settings)
            connection.add_termination_listener(lose)
            try:
                await connection.add_listener(channel, hear)
                yield lost
            finally:
                connection.terminate()

    async def _connect(self, *_: Any, **how: Any) -> Any:
        async with self._breakable():
            return await self._hosts.connect(**how)

    @asynccontextmanager
    async def _breakable(self) -> AsyncIterator[None]:
        """Connect within the block, unless that is broken off: a pool that has ended goes on."""
        async with asyncio.timeout(0 if self._is_broken_off else None) as limit:
            self._connecting.add(limit)
            try:
                yield
            finally:
                self._connecting.discard(limit)

    @asynccontextmanager
    async def _begin(self, begin: str) -> AsyncIterator[Transaction]:
        async with self._translated(), self._pool.acquire() as connection:
            try:
                with _leaving_standby(connection) if begin == _BEGIN else nullcontext():
                    await connection.execute(begin)
                    self._outage.note_success()
                    yield Transaction(connection)
                    await connection.execute("commit")
            except BaseException:
                await asyncio.shield(_roll_back(connection))
                raise

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Tell "try again" from everything else; what is wrong with a statement stays as it is."""
        try:
            yield
        except asyncpg.LockNotAvailableError as error:
            raise LockTimeout("a row is held by another transaction") from error
        except asyncpg.IntegrityConstraintViolationError as error:
            error.detail = without_row(error.detail)
            raise
        except _AWAY as error:
            reason = NOT_PRIMARY if isinstance(error, _NOT_PRIMARY) else describe(error)
            away = Unavailable(f"{self._outage.what} cannot be used now: {reason}")
            self._outage.note_failure(away, reason)
            raise away from error
        except asyncpg.PostgresError as error:
            raised = _RAISED.get(error.sqlstate)
            if raised is None:
                raise
            raise raised(str(error)) from error


@asynccontextmanager
async def connecting(url: str) -> AsyncIterator[None]:
    """Connect within the block; raises Invalid for a URL that is none, and Unavailable."""
    try:
        yield
    except _NOT_PRIMARY as error:
        address = postgres_address(url)
        raise Unavailable(f"Postgres at {address}: {NOT_PRIMARY}") from error
    except (OSError, asyncpg.PostgresError) as error:  # a certificate's is a ValueError as well
        address = postgres_address(url)
        raise Unavailable(f"cannot connect to Postgres at {address}: {describe(error)}") from error
    except (ValueError, asyncpg.InterfaceError) as error:
        raise Invalid("database_url", f"{error}; write it like postgresql://host/name") from error


async def find_pooler(hosts: Hosts, settings: dict[str, str]) -> bool:
    """Tell whether a pooler answers at a URL, in whatever mode: the process it names is none.

    Postgres says at the beginning which of its processes serves a connection. A pooler has to say
    it before it has chosen one, and makes a number up.
    """
    connection = await hosts.connect(server_settings=settings, statement_cache_size=0)
    try:
        serving: int = await connection.fetchval("select pg_backend_pid()")
        return bool(serving != connection.get_server_pid())
    finally:
        await connection.close()


def session_settings(url: str, program: str) -> dict[str, str]:
    """Say who connects, for pg_stat_activity, unless the URL says so."""
    is_named = "application_name=" in urlsplit(url).query
    return {} if is_named else {"application_name": program}


def database_outage(url: str) -> Outage:
    """Make what notes that a Postgres is away; to be shared by all pools of a process."""
    return Outage(f"Postgres at {postgres_address(url)}")


def describe(error: Exception) -> str:
    """Describe an error of the driver in one line; some have no words of their own."""
    return " ".join(str(error).split()) or type(error).__name__


def without_row(detail: str | None) -> str | None:
    """Leave out the row that Postgres shows with an error, lease tokens and inputs included."""
    if detail is None or not detail.startswith(_ROW):
        return detail
    key = ", ".join(detail.removeprefix(_ROW).split(", ")[:2])
    return f"{_ROW}{key}, and more."


@contextmanager
def _leaving_standby(connection: Any) -> Iterator[None]:
    """Give up a connection to what is not the primary, or not any more: the next one looks."""
    try:
        yield
    except asyncpg.ReadOnlySQLTransactionError as error:
        connection.terminate()
        raise asyncpg.TargetServerAttributeNotMatched(describe(error)) from error


async def _roll_back(connection: Any) -> None:
    """Leave the transaction; a connection that cannot even do that is given up."""
    try:
        if connection.is_closed():
            return
        await connection.execute("rollback", timeout=ROLLBACK_SECONDS_MAX)
    except (
        OSError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        TimeoutError,
    ):
        with suppress(asyncpg.InterfaceError):  # it broke by itself, and the pool has dropped it
            connection.terminate()


async def _keep_session(_: Any) -> None:
    """Leave a returned connection as it is: transactions set everything locally."""
