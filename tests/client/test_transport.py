"""Calls over HTTP: what is sent, what is tried again, and what is made of strange answers."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from holdfast.client.refusals import ServerFailed
from holdfast.client.transport import DEFAULT_SERVER, Transport, find_server
from holdfast.errors import Invalid, Refused, Stopping, Unavailable
from holdfast.model.outage import Outage
from holdfast.wire.events import EventStreamQuery
from holdfast.wire.requests import CancelRequest, JobListQuery, LogQuery
from holdfast.wire.status import Changed
from tests.client.peer import Peer, Say

GONE = Say(None)
AWAY = Say(503, b'{"error": {"code": "stopping", "message": "shutting down"}}')
BROKEN = Say(500, b'{"error": {"code": "internal", "message": "the server failed"}}')
BAD = Say(400, b'{"error": {"code": "invalid", "message": "mode: no", "field": "mode"}}')


@pytest.fixture
async def transport(stranger: Peer) -> AsyncIterator[Transport]:
    async with Transport(stranger.url, actor="ada") as transport:
        yield transport


def test_the_server_is_the_one_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SERVER", "https://elsewhere:1/")
    assert find_server("http://here:2/prefix/") == "http://here:2/prefix"


def test_the_server_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SERVER", "https://elsewhere:1/")
    assert find_server() == "https://elsewhere:1"


def test_the_server_is_the_local_one_otherwise() -> None:
    assert find_server() == DEFAULT_SERVER


@pytest.mark.parametrize(
    "url",
    [
        "localhost:7878",
        "ftp://here",
        "http://",
        "http://:80",
        "http://here:x",
        "http://here:99999",
        "http://a..b:1",
    ],
)
def test_what_names_no_host_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not a URL; write it like") as caught:
        find_server(url)
    assert caught.value.field == "server"


@pytest.mark.parametrize("url", ["http://here?x=1", "http://here#x", "http://[::1", "", " "])
def test_what_is_more_or_less_than_a_host_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("HOLDFAST_SERVER", " ")
    with pytest.raises(Invalid, match="is not a URL"):
        find_server(url)


async def test_a_call_sends_json_and_says_who_asks(transport: Transport, stranger: Peer) -> None:
    body = CancelRequest("hard", "enough")
    answer = await transport.call("POST", "/api/x", Changed, body=body, headers={"X-More": "1"})
    assert answer.changed
    [heard] = stranger.heard
    assert (heard.method, heard.path) == ("POST", "/api/x")
    assert heard.json == {"mode": "hard", "reason": "enough"}
    assert heard.headers["Content-Type"] == "application/json"
    assert heard.headers["Holdfast-Actor"] == "ada"
    assert heard.headers["X-More"] == "1"
    assert "Accept-Encoding" not in heard.headers


async def test_a_query_leaves_out_what_is_not_asked(transport: Transport, stranger: Peer) -> None:
    await transport.call("GET", "/a", Changed, query=JobListQuery(label="team=a & b"))
    await transport.call("GET", "/b", Changed, query=LogQuery(3, follow=True))
    await transport.call("GET", "/c", Changed, query=JobListQuery())
    paths = [heard.path for heard in stranger.heard]
    assert paths == ["/a?label=team%3Da+%26+b", "/b?attempt=3&follow=true", "/c"]


async def test_a_refusal_is_raised_and_not_tried_again(
    transport: Transport, stranger: Peer
) -> None:
    stranger.script = [BAD]
    with pytest.raises(Invalid) as caught:
        await transport.insist("POST", "/x", Changed)
    assert caught.value.field == "mode"
    assert len(stranger.heard) == 1


@pytest.mark.parametrize("away", [GONE, AWAY, Say(502, b"<html>")], ids=["gone", "away", "proxy"])
async def test_a_server_that_was_away_is_called_again(
    transport: Transport, stranger: Peer, away: Say
) -> None:
    stranger.script = [away, away, Say()]
    answer = await transport.insist("POST", "/x", Changed, body=CancelRequest())
    assert answer.changed
    assert len({heard.body for heard in stranger.heard}) == 1
    assert len(stranger.heard) == 3


async def test_one_call_is_made_once(transport: Transport, stranger: Peer) -> None:
    stranger.script = [AWAY, Say()]
    with pytest.raises(Stopping):
        await transport.call("POST", "/x", Changed)
    assert len(stranger.heard) == 1


@pytest.mark.parametrize("back", [Say(), BAD, BROKEN], ids=["done", "refused", "failed"])
async def test_an_outage_lasts_until_the_server_answers_again(
    stranger: Peer, caplog: pytest.LogCaptureFixture, back: Say
) -> None:
    caplog.set_level("INFO", "holdfast.outage")
    stranger.script = [AWAY, Say(502, b"<html>"), AWAY, back]
    hours = [0.0]
    async with Transport(
        stranger.url, outage=Outage("the server", clock=lambda: hours[0])
    ) as transport:
        for _ in range(3):
            with pytest.raises(Unavailable) as caught:
                await transport.call("POST", "/x", Changed)
            assert caught.value.is_logged
        hours[0] = 3600.0
        with suppress(Invalid, ServerFailed):
            await transport.call("POST", "/x", Changed)
    began, ended = "the server is away: shutting down", "the server is back after 0 s"
    assert caplog.messages == [began, ended]


async def test_whoever_insists_says_so_once(
    transport: Transport, stranger: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    stranger.script = [AWAY, AWAY, Say()]
    with caplog.at_level(logging.WARNING, "holdfast.client"):
        await transport.insist("POST", "/x", Changed)
    assert [record.getMessage() for record in caplog.records] == [
        "POST /x will be tried again: shutting down"
    ]


async def test_insisting_has_an_end(transport: Transport, stranger: Peer) -> None:
    stranger.script = [AWAY]
    with pytest.raises(Stopping):
        await transport.insist("POST", "/x", Changed, seconds_max=0.3)
    assert len(stranger.heard) > 1


async def test_patience_counts_from_the_first_failure(transport: Transport, stranger: Peer) -> None:
    stranger.script = [AWAY]
    with pytest.raises(Stopping):
        await transport.insist("POST", "/x", Changed, seconds_max=3600, patience=0.3)
    assert len(stranger.heard) > 1


async def test_the_last_word_of_the_server_is_told_when_patience_ends_in_a_silence(
    transport: Transport, stranger: Peer
) -> None:
    stranger.script = [AWAY, Say(200, b"", silence=60)]
    with pytest.raises(Stopping, match="shutting down"):
        await transport.insist("POST", "/x", Changed, seconds_max=3600, patience=1)
    assert len(stranger.heard) == 2


async def test_a_request_that_breaks_the_server_is_not_sent_for_ever(
    transport: Transport, stranger: Peer
) -> None:
    stranger.script = [BROKEN]
    with pytest.raises(ServerFailed):
        await transport.insist("POST", "/x", Changed, seconds_max=3600)
    assert len(stranger.heard) == 3


def test_an_address_that_is_none_is_not_repeated_with_a_login_in_it() -> None:
    with pytest.raises(Invalid, match="is not a URL") as caught:
        find_server("http://me:sec/ret@host")
    assert "ret" not in str(caught.value)


async def test_nobody_at_the_address_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with Transport(url) as transport:
            with pytest.raises(Unavailable, match=f"no answer from {url}: "):
                await transport.call("GET", "/x", Changed)


async def test_a_silent_server_is_unavailable(transport: Transport, stranger: Peer) -> None:
    stranger.script = [Say(silence=60)]
    with pytest.raises(Unavailable, match="TimeoutError"):
        await transport.call("GET", "/x", Changed, seconds_max=0.1)


@pytest.mark.parametrize(
    "strange",
    [Say(body=b"<html>welcome"), Say(body=b'{"other": 1}'), Say(body=b'"\xff"'), Say(204, b"")],
    ids=["html", "other", "latin", "empty"],
)
async def test_an_answer_of_a_stranger_is_refused_at_once(
    transport: Transport, stranger: Peer, strange: Say
) -> None:
    stranger.script = [strange]
    with pytest.raises(Refused, match="not Holdfast; check the server's URL"):
        await transport.insist("GET", "/x", Changed)
    assert len(stranger.heard) == 1


async def test_a_redirect_is_not_followed(transport: Transport, stranger: Peer) -> None:
    stranger.script = [Say(302, b"", {"Location": "/login"})]
    with pytest.raises(Refused, match="HTTP 302"):
        await transport.call("POST", "/x", Changed)
    assert [heard.path for heard in stranger.heard] == ["/x"]


async def test_lines_are_read_as_they_come(transport: Transport, stranger: Peer) -> None:
    long = b"data: " + b"x" * 1_000_000 + b"\n"
    stranger.script = [Say(body=b"id: 1\n" + long, silence=60)]
    lines = transport.follow("/s", EventStreamQuery(after="1-2"), {"X-More": "1"})
    async with aclosing(lines):
        assert [await anext(lines), await anext(lines)] == [b"id: 1\n", long]
    [heard] = stranger.heard
    assert (heard.path, heard.headers["X-More"]) == ("/s?after=1-2", "1")


async def test_a_stream_that_breaks_is_unavailable(transport: Transport, stranger: Peer) -> None:
    stranger.script = [AWAY]
    lines = transport.follow("/s", None, {})
    with pytest.raises(Stopping):
        await anext(lines)


async def test_many_calls_share_a_few_connections(stranger: Peer) -> None:
    async with Transport(stranger.url, connections_max=2) as transport:
        calls = [transport.call("GET", f"/{number}", Changed) for number in range(40)]
        answers = await asyncio.gather(*calls)
    assert len(answers) == len(stranger.heard) == 40


async def test_a_file_is_sent_as_it_is(
    transport: Transport, stranger: Peer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    stranger.script = [AWAY, Say()]
    await transport.insist("PUT", "/f", Changed, body=tmp_path / "file")
    assert [heard.body for heard in stranger.heard] == [b"x" * 1_000_000] * 2
    assert stranger.heard[1].headers["Content-Type"] == "application/octet-stream"
    assert stranger.heard[1].headers["Content-Length"] == "1000000"


async def test_a_file_is_fetched_piece_by_piece(transport: Transport, stranger: Peer) -> None:
    stranger.script = [Say(body=b"x" * 1_000_000)]
    pieces = transport.fetch("/f", headers={"X-More": "1"}, seconds_max=30)
    found = [piece async for piece in pieces]
    assert len(found) > 1
    assert b"".join(found) == b"x" * 1_000_000
    assert stranger.heard[0].headers["X-More"] == "1"


async def test_a_file_that_comes_in_part_is_unavailable(
    transport: Transport, stranger: Peer
) -> None:
    stranger.script = [Say(body=b"x", headers={"Content-Length": "2"}, hangs_up=True)]
    with pytest.raises(Unavailable, match="ClientPayloadError"):
        [piece async for piece in transport.fetch("/f", seconds_max=30)]


@pytest.mark.parametrize(
    ("said", "size"),
    [
        (Say(200, b"", {"Content-Length": "7"}), 7),
        (Say(404, b""), None),
        (Say(503, b""), None),
        (Say(None), None),
    ],
)
async def test_the_size_of_a_file_is_asked_for_without_reading_it(
    transport: Transport, stranger: Peer, said: Say, size: int | None
) -> None:
    stranger.script = [said]
    assert await transport.find_size("/f") == size
    assert {heard.method for heard in stranger.heard} == {"HEAD"}


OVERLOADED = b'{"error": {"code": "overloaded", "message": "slow down"}}'


async def test_an_overloaded_server_is_left_alone_as_long_as_it_asks(
    stranger: Peer, transport: Transport
) -> None:
    stranger.script = [Say(429, OVERLOADED, headers={"Retry-After": "1"}), Say()]
    clock = asyncio.get_running_loop().time
    began_at = clock()
    await transport.insist("GET", "/x", Changed)
    assert clock() - began_at >= 1.0


async def test_nobody_waits_longer_than_he_has_time(stranger: Peer, transport: Transport) -> None:
    stranger.script = [Say(503, b"busy", headers={"Retry-After": "30"})]
    clock = asyncio.get_running_loop().time
    began_at = clock()
    with pytest.raises(Unavailable) as caught:
        await transport.insist("GET", "/x", Changed, seconds_max=20)
    assert caught.value.retry_after == 30.0
    assert clock() - began_at < 10


async def test_a_server_that_stops_is_asked_again_at_once(
    stranger: Peer, transport: Transport
) -> None:
    stranger.script = [Say(503, AWAY.body, headers={"Retry-After": "60"}), Say()]
    await transport.insist("GET", "/x", Changed, seconds_max=10)
