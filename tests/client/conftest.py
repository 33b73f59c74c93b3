"""What a client talks to: a peer that follows a script, or a real server on a real Postgres."""

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from holdfast.client.client import Client
from holdfast.client.context import Context
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from tests.client import peer
from tests.client.contexts import build_context
from tests.client.hand import Hand


@pytest.fixture
def stranger() -> Iterator[peer.Peer]:
    """Somebody who answers as he is told."""
    with peer.listening() as listening:
        yield listening


@pytest.fixture(autouse=True)
def no_server_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the environment of whoever runs the tests out of them."""
    monkeypatch.delenv("HOLDFAST_SERVER", raising=False)


@pytest.fixture
def a_context() -> Context:
    """The context of an attempt that is not asked to stop, and has nobody to talk to."""
    return build_context("http://127.0.0.1:9")


@pytest.fixture
def server(database_url: str) -> Iterator[str]:
    """A real server, on a thread of its own."""
    serving = serve(Options(database_url), Address(port=0))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving) as running:
        yield running.url


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    """A client of the real server, in use."""
    with Client(server) as client:
        yield client


@pytest.fixture
def hand(client: Client) -> Hand:
    """A worker by hand."""
    return Hand(client)
