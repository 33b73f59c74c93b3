"""A real Postgres for every test that wants one: a fresh database from a template each time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.operations.ledger import Ledger
from holdfast.store.database import Database
from holdfast.store.migrate import migrate
from tests.clock import Clock
from tests.placed_world import PlacedWorld
from tests.world import World

TEMPLATE = "holdfast_template"


@pytest.fixture(scope="session")
def postgres_binaries() -> Path | None:
    """The binaries to test with; None for the embedded ones."""
    return None


@pytest.fixture(scope="session")
def postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres_binaries: Path | None
) -> Iterator[EmbeddedPostgres]:
    """A running Postgres with a migrated template database. Durability is not its subject."""
    folder = tmp_path_factory.mktemp("postgres") / "cluster"
    settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    with EmbeddedPostgres(folder, binaries=postgres_binaries, settings=settings) as postgres:
        asyncio.run(_make_template(postgres))
        yield postgres


async def _make_template(postgres: EmbeddedPostgres) -> None:
    await run_sql(postgres.url("postgres"), f"create database {TEMPLATE}")
    await migrate(postgres.url(TEMPLATE))


async def run_sql(url: str, *statements: str) -> None:
    """Run statements outside of any transaction."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
async def database_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database of the test's own, migrated."""
    name = f"test_{uuid4().hex}"
    admin = postgres.url("postgres")
    await run_sql(admin, f"create database {name} template {TEMPLATE}")
    # The template is as old as the session, which the reaper would take for an outage.
    watched = "update holdfast.reaper set last_pass_at = holdfast.now()"
    await run_sql(postgres.url(name), watched)
    yield postgres.url(name)
    await run_sql(admin, f"drop database {name} with (force)")


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
async def clock(database_url: str) -> AsyncIterator[Clock]:
    """The database's clock, in the test's hands."""
    async with Clock(database_url) as clock:
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
