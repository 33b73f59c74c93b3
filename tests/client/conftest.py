"""What a client talks to: a peer that follows a script, or a real server on a real Postgres."""

from collections.abc import Iterator

import pytest

from holdfast.client.context import Context
from tests.client import peer
from tests.client.contexts import build_context


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
