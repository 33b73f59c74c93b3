"""A server with TLS and tokens, once for all tests of a process that read from it."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.migrate import migrate
from tests.deploy.live import LiveServer, live_server


@pytest.fixture(scope="session")
def live(
    tmp_path_factory: pytest.TempPathFactory, postgres: EmbeddedPostgres
) -> Iterator[LiveServer]:
    """A server that has run a task, on a database of its own."""
    postgres.create_database("live")
    asyncio.run(migrate(postgres.url("live")))
    with live_server(postgres.url("live"), tmp_path_factory.mktemp("live")) as server:
        yield server
