"""Announcing functions to a server that is there, refuses, or does not know the route."""

import json

import msgspec
import pytest

from holdfast.client.functions.describing import describe
from holdfast.model.worker_credentials import WorkerCredential
from holdfast.worker import announcing
from holdfast.worker.announcing import announce
from tests.client import app, peer
from tests.client.peer import Say

TAKEN = Say(200, b'{"changed": ["x"], "refused": {"a:b": "lease: is out of range"}}')
ANNOUNCER = WorkerCredential("w", "s" * 32)
OLDER = Say(404, b'{"error": {"code": "not_found", "message": "there is no such route"}}')


async def test_what_is_not_taken_is_logged_and_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with peer.listening() as server:
        server.script = [Say(None), TAKEN, OLDER]
        await announce(server.url, ANNOUNCER, [])
        assert server.heard == []
        await announce(server.url, ANNOUNCER, [describe(app.greet)])
        [_, heard] = server.heard
        assert heard.headers["Holdfast-Worker"] == ANNOUNCER.header
        assert json.loads(heard.body)["functions"][0]["path"] == "tests.client.app:greet"
        assert "a:b was not taken, its options are unknown: lease" in caplog.text
        await announce(server.url, ANNOUNCER, [describe(app.greet)])
        assert "functions could not be announced" in caplog.text


async def test_more_than_a_server_takes_at_once_is_announced_in_parts() -> None:
    """What is refused of one part does not keep the next from being announced."""
    one = describe(app.greet)
    large = msgspec.structs.replace(one, doc="x" * announcing.BYTES_PER_REQUEST_MAX)
    with peer.listening() as server:
        server.script = [TAKEN, OLDER, TAKEN]
        await announce(server.url, ANNOUNCER, [one] * 501 + [large, one])
    sent = [len(json.loads(heard.body)["functions"]) for heard in server.heard]
    assert sent == [500, 1, 1, 1]
