"""The calls that a worker makes itself: taken or not, it goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import uuid4

import pytest

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.wire.requests import TaskCompletion, WorkerRegisterRequest
from holdfast.worker.placed.server_calls import ServerCalls
from tests.client.peer import Peer, Say, listening
from tests.waiting import eventually

END = TaskCompletion("7.0", 0, uuid4(), "succeeded")
# Recorded; of no interest any more; and not stored this time.
ANSWERS = b"""{"results": [{"task_id": "7.0", "accepted": true},
    {"task_id": "7.0", "error": {"code": "lease_conflict", "message": "gone"}},
    {"task_id": "7.0", "error": {"code": "unavailable", "message": "later"}}]}"""


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """Somebody in the server's place."""
    with listening() as peer:
        yield peer


@pytest.fixture
async def calls(peer: Peer) -> AsyncIterator[ServerCalls]:
    """The calls of a worker."""
    async with Transport(peer.url) as transport:
        yield ServerCalls(transport)


async def test_what_the_server_has_taken_is_known(calls: ServerCalls, peer: Peer) -> None:
    assert await calls.drain("w")
    peer.script = [Say(200, ANSWERS)]
    assert await calls.complete("w", [END] * 3) == [True, True, False]
    assert await calls.complete("w", []) == []
    peer.script = [Say(200, b"{}")]
    assert await calls.leave("w", "secret")
    assert [heard.path for heard in peer.heard] == [
        "/internal/worker-drain",
        "/internal/task-complete",
        "/internal/worker-leave",
    ]
    assert peer.heard[-1].json == {"worker_id": "w", "secret": "secret"}


@pytest.mark.parametrize(
    "said",
    [Say(None), Say(503, b"{}"), Say(404, b'{"error": {"code": "not_found", "message": "no"}}')],
)
async def test_a_call_that_was_not_taken_is_no_fault(
    calls: ServerCalls, peer: Peer, said: Say
) -> None:
    peer.script = [said]
    assert not await calls.drain("w")
    assert await calls.complete("w", [END]) == [False]
    assert not await calls.leave("w", "secret")


async def test_a_registration_is_refused_aloud(calls: ServerCalls, peer: Peer) -> None:
    body = WorkerRegisterRequest("w", "n", "h")
    peer.script = [Say(400, b'{"error": {"code": "invalid", "message": "no", "field": "name"}}')]
    with pytest.raises(Refused, match="no"):
        await calls.register(body)
    peer.script = [Say(None)]
    with pytest.raises(Unavailable):
        await calls.register(body)


async def test_calls_are_asked_for_under_the_id_of_the_moment(
    calls: ServerCalls, peer: Peer
) -> None:
    names = ["first"]
    peer.script = [Say(None), Say(200, b"{}")]
    passing = asyncio.create_task(calls.send_call_requests(lambda: names[-1]))
    for _ in range(100):
        calls.ask_for_call()
    await eventually(lambda: len(peer.heard) == 1)  # once for all, and not taken
    names.append("second")
    calls.ask_for_call()
    await eventually(lambda: len(peer.heard) == 2)
    assert [heard.json["worker_id"] for heard in peer.heard] == ["first", "second"]
    passing.cancel()
    with suppress(asyncio.CancelledError):
        await passing
