"""A real Postgres for every test that wants one, and each time a database as new."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Database
from tests.clock import Clock
from tests.databases import connect, give_back_database, take_database
from tests.pgbouncer import Poolers
from tests.placed_world import PlacedWorld
from tests.prepared import running_cluster
from tests.supervision import supervise
from tests.world import World

# Hundreds of processes are started, and without its bytecode each would compile Holdfast anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ID_LENGTH_MAX = 200
WATCHDOG = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let whoever runs the tests put a pooler between Holdfast and Postgres."""
    parser.addoption(
        "--pooler",
        action="store_true",
        help="Reach every database through a real PgBouncer in transaction mode.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Leave nothing behind, however this process ends."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As of a run in the background: tests interrupt processes, which would not hear of it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[WATCHDOG] = supervise()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long value by its beginning: the name of a test is a variable of what it starts."""
    if isinstance(val, str | bytes) and len(val) > ID_LENGTH_MAX:
        return f"{val[:30]!r} and so on, {len(val)} in all"
    return None


@pytest.fixture(scope="session")
def postgres_binaries() -> Path | None:
    """The binaries to test with; None for the embedded ones."""
    return None


@pytest.fixture(scope="session")
def postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres_binaries: Path | None
) -> Iterator[EmbeddedPostgres]:
    """A running Postgres with a migrated template database."""
    folder = tmp_path_factory.mktemp("postgres") / "cluster"
    with running_cluster(folder, postgres_binaries) as postgres:
        yield postgres


async def run_sql(url: str, *statements: str) -> None:
    """Run statements outside of any transaction."""
    connection = await connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def poolers(pytestconfig: pytest.Config) -> Iterator[Poolers]:
    """What stands between Holdfast and Postgres: nothing, or with --pooler a PgBouncer."""
    with ExitStack() as stack:
        yield Poolers(stack, is_wanted=pytestconfig.getoption("--pooler"))


@pytest.fixture
async def direct_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database of the test's own, migrated, past any pooler: for what needs a session."""
    name = await take_database(postgres)
    yield postgres.url(name)
    await give_back_database(postgres, name)


@pytest.fixture
def database_url(direct_url: str, poolers: Poolers) -> str:
    """A database of the test's own, migrated."""
    return poolers.url(direct_url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """Connections to the test's database."""
    async with Database(database_url) as database:
        yield database


@pytest.fixture
async def ledger(database: Database) -> Ledger:
    """A ledger on the test's database."""
    return Ledger(database)


@pytest.fixture
async def clock(direct_url: str) -> AsyncIterator[Clock]:
    """The database's clock, in the test's hands."""
    async with Clock(direct_url) as clock:
        yield clock


@pytest.fixture
def world(ledger: Ledger, clock: Clock) -> World:
    """The ledger and its clock, told in domain words."""
    return World(ledger, clock)


@pytest.fixture
async def cluster(ledger: Ledger, clock: Clock) -> PlacedWorld:
    """The ledger with workers that are called, and no outage behind it."""
    cluster = PlacedWorld(ledger, clock)
    await cluster.watch()
    return cluster
