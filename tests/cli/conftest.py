"""Databases as the commands may find them."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from holdfast.embedded import EmbeddedPostgres
from tests.conftest import run_sql

LATER_MIGRATION = (
    "insert into holdfast.schema_versions (version, name, checksum) "
    "values (9999, 'from_the_future', 'other')"
)


@pytest.fixture
async def empty_database_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    """A database without a schema."""
    name = f"empty_{uuid4().hex}"
    await run_sql(postgres.url(), f"create database {name}")
    yield postgres.url(name)
    await run_sql(postgres.url(), f"drop database {name} with (force)")


@pytest.fixture
async def newer_database_url(database_url: str) -> str:
    """A database with a schema that only a later program knows."""
    await run_sql(database_url, LATER_MIGRATION)
    return database_url


@pytest.fixture
async def changed_database_url(database_url: str) -> str:
    """A database whose schema another build has made."""
    await run_sql(database_url, "update holdfast.schema_versions set checksum = 'other'")
    return database_url
