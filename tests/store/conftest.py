"""The store's tests run on the embedded PostgreSQL 18, at night on 15 too, where there is one."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.embedded.binaries import get_major_version
from holdfast.store.migrate import migrate
from tests.conftest import run_sql
from tests.databases import TEMPLATE, connect
from tests.pgbouncer import Poolers
from tests.prepared import QUICK
from tests.store.raw import Raw

OLDEST = 15


def find_oldest_postgres() -> Path | None:
    """Look for the programs of the oldest Postgres that Holdfast runs on."""
    folders = [Path("/usr/lib/postgresql") / str(OLDEST) / "bin"]
    pg_config = os.environ.get("PG_CONFIG") or shutil.which("pg_config")
    if pg_config:
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=True)
        folders.append(Path(answer.stdout.strip()))
    for folder in folders:
        is_whole = (folder / "initdb").exists() and (folder / "postgres").exists()
        if is_whole and get_major_version(folder) == OLDEST:
            return folder
    return None


_OLDEST = find_oldest_postgres()
_VERSIONS = [pytest.param(None, id="pg18")]
if _OLDEST is not None:
    _VERSIONS.append(pytest.param(_OLDEST, id=f"pg{OLDEST}", marks=pytest.mark.nightly))


@pytest.fixture(scope="session", params=_VERSIONS)
def postgres_binaries(request: pytest.FixtureRequest) -> Path | None:
    """The binaries to test with; None for the embedded ones."""
    binaries: Path | None = request.param
    return binaries


# The fixture of the same name above this folder would keep the Postgres it started first, whatever
# binaries a test asks for.
@pytest.fixture(scope="session")
def postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres_binaries: Path | None
) -> Iterator[EmbeddedPostgres]:
    """A running Postgres of the wanted version with a migrated template database."""
    folder = tmp_path_factory.mktemp("postgres") / "cluster"
    with EmbeddedPostgres(folder, binaries=postgres_binaries, settings=QUICK) as postgres:
        asyncio.run(run_sql(postgres.url("postgres"), f"create database {TEMPLATE}"))
        asyncio.run(migrate(postgres.url(TEMPLATE)))
        yield postgres


@pytest.fixture(scope="session")
def shared_database_url(postgres: EmbeddedPostgres, poolers: Poolers) -> str:
    """A migrated database for tests that leave nothing behind."""
    name = "shared"
    asyncio.run(run_sql(postgres.url("postgres"), f"create database {name} template {TEMPLATE}"))
    return poolers.url(postgres.url(name))


@pytest.fixture
async def raw(shared_database_url: str) -> AsyncIterator[Raw]:
    """A database past all code of ours, in a transaction that is forgotten at the end."""
    connection = await connect(shared_database_url)
    try:
        raw = Raw(connection)
        async with raw.rolled_back():
            yield raw
    finally:
        await connection.close()


@pytest.fixture
async def lasting(database_url: str) -> AsyncIterator[Raw]:
    """A database of the test's own, past all code of ours; every statement commits."""
    connection = await connect(database_url)
    try:
        yield Raw(connection)
    finally:
        await connection.close()
