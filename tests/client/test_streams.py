"""Logs and events that go on, over connections that do not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from holdfast.client import streams
from holdfast.client.transport import Transport
from holdfast.errors import NotFound, Stopping
from holdfast.wire.events import EventStreamQuery
from holdfast.wire.requests import LogQuery
from holdfast.wire.status import LogChunk
from tests.client.peer import Peer, Say

AWAY = Say(503, b'{"error": {"code": "stopping", "message": "shutting down"}}')
MISSING = Say(404, b'{"error": {"code": "not_found", "message": "there is no task 7.3"}}')


@pytest.fixture
async def transport(stranger: Peer) -> AsyncIterator[Transport]:
    async with Transport(stranger.url) as transport:
        yield transport


def chunk(offset: int, content: bytes, *, complete: bool = False, attempt: int = 2) -> Say:
    end = offset + len(content)
    return Say(body=msgspec.json.encode(LogChunk("7.3", attempt, offset, end, content, complete)))


async def read_all(transport: Transport, query: LogQuery) -> list[bytes]:
    pieces = streams.read_log(transport, "7.3", query, patience=5)
    return [piece async for piece in pieces]


async def test_a_log_is_read_to_its_end(transport: Transport, stranger: Peer) -> None:
    stranger.script = [chunk(0, b"one "), chunk(4, b"two", complete=True)]
    assert await read_all(transport, LogQuery()) == [b"one ", b"two"]
    assert {heard.path.partition("?")[0] for heard in stranger.heard} == {"/api/tasks/7.3/logs"}
    assert "attempt" not in stranger.heard[0].path
    assert "attempt=2&offset=4" in stranger.heard[1].path


async def test_a_log_that_grows_is_read_as_far_as_it_is(
    transport: Transport, stranger: Peer
) -> None:
    stranger.script = [chunk(0, b"one"), chunk(3, b"")]
    assert await read_all(transport, LogQuery()) == [b"one"]


async def test_a_log_is_followed_through_silence(transport: Transport, stranger: Peer) -> None:
    script = [chunk(0, b"one"), chunk(3, b""), AWAY, chunk(3, b""), chunk(3, b"2", complete=True)]
    stranger.script = list(script)
    assert await read_all(transport, LogQuery(follow=True)) == [b"one", b"2"]
    assert len(stranger.heard) == len(script)


async def test_a_log_is_followed_from_before_there_is_an_attempt(
    transport: Transport, stranger: Peer
) -> None:
    stranger.script = [chunk(0, b"", attempt=-1), chunk(0, b"one", complete=True, attempt=0)]
    assert await read_all(transport, LogQuery(follow=True)) == [b"one"]
    assert ["attempt" in heard.path for heard in stranger.heard] == [False, False]


def event(number: int) -> bytes:
    told: dict[str, Any] = {"id": number, "job_id": "7", "task_index": -1, "attempt": -1}
    told |= {"seq": number, "type": "submitted", "ts": "2030-01-01T00:00:00Z"}
    told |= {"correlation_id": "c"}
    return b"id: 5-%d\ndata: %b\n\n" % (number, msgspec.json.encode(told))


async def follow(transport: Transport, count: int, **query: Any) -> list[int]:
    """Give the ids of the next events."""
    found: list[int] = []
    events = streams.follow_events(transport, EventStreamQuery(**query), patience=5)
    async with aclosing(events), asyncio.timeout(20):
        while len(found) < count:
            found.append((await anext(events)).id)
    return found


async def test_events_are_followed(transport: Transport, stranger: Peer) -> None:
    stranger.script = [Say(body=b": hello\n\n" + event(1) + event(2), silence=60)]
    assert await follow(transport, 2, job_id="7", type="submitted", after="1-1") == [1, 2]
    assert stranger.heard[0].path == "/api/events/stream?job_id=7&type=submitted&after=1-1"


async def test_events_are_taken_up_where_they_broke_off(
    transport: Transport, stranger: Peer
) -> None:
    quiet = b": nothing new\nid: 6-0\n\n"
    half = event(3)[:20]
    stranger.script = [
        Say(body=event(1) + half),
        AWAY,
        Say(body=event(3) + quiet),
        Say(body=event(4), silence=60),
    ]
    assert await follow(transport, 3) == [1, 3, 4]
    paths = [heard.path.partition("after=")[2] for heard in stranger.heard]
    assert paths == ["", "5-1", "5-1", "6-0"]


async def test_following_has_an_end(transport: Transport, stranger: Peer) -> None:
    stranger.script = [AWAY]
    events = streams.follow_events(transport, EventStreamQuery(), patience=0.0)
    with pytest.raises(Stopping):
        await anext(events)


async def test_what_is_not_there_cannot_be_followed(transport: Transport, stranger: Peer) -> None:
    stranger.script = [MISSING]
    with pytest.raises(NotFound):
        await read_all(transport, LogQuery(follow=True))
    assert len(stranger.heard) == 1
