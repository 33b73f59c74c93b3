"""The two versions, and databases that neither has touched yet."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.embedded import EmbeddedPostgres
from tests.conftest import run_sql
from tests.upgrade.previous import take_out_previous


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package of the version before this one is."""
    return take_out_previous(tmp_path_factory.mktemp("previous"))


@pytest.fixture
async def empty_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database with nothing in it."""
    name = f"upgrade_{uuid4().hex}"
    await run_sql(postgres.url("postgres"), f"create database {name}")
    yield postgres.url(name)
    await run_sql(postgres.url("postgres"), f"drop database {name} with (force)")
