"""Addresses of running tasks, as others look them up on a real server."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.client import endpoints
from holdfast.client.client import Client
from holdfast.client.context import Lease
from holdfast.errors import Invalid, NotFound
from holdfast.wire.answers import ClaimedTask
from tests.client import app
from tests.client.hand import Hand
from tests.client.peer import Peer, Say

FOUND = Say(
    body=b'{"name": "db", "address": "a:1", "task_id": "1.0", "attempt": 0, "registered_at_ms": 1}'
)
MISSING = Say(404, b'{"error": {"code": "not_found", "message": "there is no endpoint db"}}')


@pytest.fixture
def running(hand: Hand, client: Client) -> ClaimedTask:
    """A task that runs."""
    app.double.submit(1)
    return hand.claim()


def publish(client: Client, claim: ClaimedTask, name: str, *, address: str = "host:1") -> None:
    lease = Lease(claim.task_id, claim.attempt, claim.lease_token)
    client.loop_thread.run(endpoints.register_endpoint(client, lease, name, address=address))


async def test_an_address_is_looked_up_by_both_faces(client: Client, running: ClaimedTask) -> None:
    publish(client, running, "models/../ranker:1")
    assert client.endpoint("models/../ranker:1") == "host:1"
    assert await client.endpoint.aio("models/../ranker:1") == "host:1"


def test_what_is_not_there_is_not_found(client: Client, running: ClaimedTask, hand: Hand) -> None:
    with pytest.raises(NotFound, match="there is no endpoint db"):
        client.endpoint("db")
    publish(client, running, "db")
    hand.finish(running)
    with pytest.raises(NotFound):
        client.endpoint("db", timeout=0.1)


@pytest.mark.parametrize("name", ["", "a b", "?", "#", "-x"])
def test_what_is_no_name_is_refused(client: Client, name: str) -> None:
    with pytest.raises(Invalid):
        client.endpoint(name)


def test_an_address_that_is_not_there_yet_is_waited_for(stranger: Peer) -> None:
    stranger.script = [MISSING, MISSING, FOUND]
    with Client(stranger.url) as client:
        assert client.endpoint("db", timeout=60) == "a:1"
    assert [heard.path for heard in stranger.heard] == ["/api/endpoints/db"] * 3


def test_somebody_who_waits_finds_what_is_published_meanwhile(
    client: Client, running: ClaimedTask
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.endpoint, "db", timeout=60)
        publish(client, running, "db")
        assert waiting.result(60) == "host:1"


async def test_a_list_has_all_that_begins_so(
    client: Client, running: ClaimedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "PER_PAGE", 2)
    for name in ("a/1", "a/2", "a/3", "b"):
        publish(client, running, name, address=f"host:{name}")
    found = client.endpoints("a/")
    assert [(each.name, each.address) for each in found] == [
        (name, f"host:{name}") for name in ("a/1", "a/2", "a/3")
    ]
    assert len(await client.endpoints.aio()) == 4
