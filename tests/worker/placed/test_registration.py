"""Registering: against a server that refuses, is out of reach, or thinks that we are dead."""

import asyncio
from collections.abc import AsyncIterator
from itertools import repeat

import pytest

from holdfast.client.transport import Transport
from holdfast.errors import Invalid, Unavailable
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.answers import WorkerRegisterAnswer
from holdfast.wire.requests import WorkerRegisterRequest
from holdfast.worker.placed.incarnation import Incarnation
from holdfast.worker.placed.registration import register
from holdfast.worker.placed.server_calls import ServerCalls
from tests.client.peer import Peer, Say, listening

ACCEPTED = Say(200, b'{"worker_id": "w", "taken_over": 0}')


def refused(status: int, code: str) -> Say:
    """Say no, by a code."""
    return Say(status, b'{"error": {"code": "%s", "message": "no"}}' % code.encode())


@pytest.fixture
def incarnation() -> Incarnation:
    """Who registers."""
    return Incarnation("w")


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """A server by script."""
    with listening() as peer:
        yield peer


async def try_to_register(
    peer: Peer, incarnation: Incarnation, replaces: str | None, *, is_draining: bool = False
) -> WorkerRegisterAnswer:
    """Register as the worker does."""

    def write_request(former: WorkerCredential | None) -> WorkerRegisterRequest:
        named = None if former is None else former.worker_id
        return WorkerRegisterRequest(incarnation.worker_id, "w", "host", [], named)

    async with asyncio.timeout(60), Transport(peer.url) as transport:
        return await register(
            ServerCalls(transport),
            incarnation,
            write_request,
            replaces=None if replaces is None else WorkerCredential(replaces, "s" * 32),
            is_draining=lambda: is_draining,
        )


def requested(peer: Peer) -> list[tuple[str, str | None]]:
    """List who asked to be registered, and whom it wanted to replace."""
    return [(heard.json["worker_id"], heard.json.get("replaces")) for heard in peer.heard]


async def test_an_incarnation_that_cannot_be_replaced_is_left_alone(
    peer: Peer, incarnation: Incarnation
) -> None:
    peer.script = [refused(404, "not_found"), ACCEPTED]
    await try_to_register(peer, incarnation, "former")
    name = incarnation.worker_id
    assert requested(peer) == [(name, "former"), (name, None)]


async def test_one_whose_secret_is_not_known_is_left_alone_too(
    peer: Peer, incarnation: Incarnation
) -> None:
    peer.script = [*repeat(refused(403, "not_allowed"), 2), ACCEPTED]
    await try_to_register(peer, incarnation, "former")
    name = incarnation.worker_id
    assert requested(peer) == [(name, "former"), (name, None), (name, None)]


async def test_whoever_counts_as_dead_already_begins_anew(
    peer: Peer, incarnation: Incarnation
) -> None:
    name = incarnation.worker_id
    peer.script = [refused(409, "illegal_move"), ACCEPTED]
    await try_to_register(peer, incarnation, "former")
    assert incarnation.worker_id != name
    assert requested(peer) == [(name, "former"), (incarnation.worker_id, name)]


async def test_a_server_out_of_reach_is_asked_again(peer: Peer, incarnation: Incarnation) -> None:
    peer.script = [*repeat(refused(403, "forbidden"), 2), ACCEPTED]
    await try_to_register(peer, incarnation, "former")
    assert requested(peer) == [(incarnation.worker_id, "former")] * 3


async def test_an_answer_of_something_in_between_is_not_taken_for_the_servers(
    peer: Peer, incarnation: Incarnation
) -> None:
    peer.script = [*repeat(Say(404, b"<html>"), 2), ACCEPTED]
    await try_to_register(peer, incarnation, "former")
    assert requested(peer) == [(incarnation.worker_id, "former")] * 3


async def test_what_can_never_be_accepted_is_an_error(peer: Peer, incarnation: Incarnation) -> None:
    peer.script = [refused(400, "invalid")]
    with pytest.raises(Invalid):
        await try_to_register(peer, incarnation, None)


async def test_a_worker_that_is_to_drain_does_not_insist(
    peer: Peer, incarnation: Incarnation
) -> None:
    peer.script = [Say(None)]
    with pytest.raises(Unavailable):
        await try_to_register(peer, incarnation, None, is_draining=True)
