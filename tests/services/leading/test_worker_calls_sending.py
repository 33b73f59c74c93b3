"""A call that is sent: what its failure says, and whether it can have reached the worker."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import aiohttp
import pytest

from holdfast.operations.placed.worker_heartbeats import Prepared
from holdfast.services.leading.reach import LOOPBACK_ONLY
from holdfast.services.leading.worker_calls import (
    ANSWER_BYTES_MAX,
    CallFailed,
    read_answer,
    send,
    write_request,
)
from holdfast.wire.cluster import WorkerHeartbeatAnswer
from tests.fleet import Fleet, Mood, hang, hang_up, refuse, well


def a_call_to(address: str, secret: str = "s" * 16) -> Prepared:
    """Describe a call that wants nothing."""
    return Prepared("w1", address, secret, (1, 2), False, [])


SILENT: dict[str, tuple[Mood, str]] = {
    "refused": (refuse(403, "not you"), "it answered 403, not in our shape$"),
    "refused by ours": (
        refuse(403, '{"error": {"code": "forbidden", "message": "a stranger"}}'),
        "it answered 403, forbidden$",
    ),
    "refused by a liar": (
        refuse(403, '{"error": {"code": "<b>", "message": ""}}'),
        "it answered 403, not in our shape$",
    ),
    "redirected": (refuse(307), "it answered 307"),
    "broken": (refuse(500, "e" * 500), "it answered 500, not in our shape$"),
    "closed": (hang_up, "Server"),
    "late": (hang, "no answer within 0.5 s"),
    "endless": (refuse(200, "x" * (ANSWER_BYTES_MAX + 1)), "longer than"),
}


@pytest.mark.parametrize(("mood", "reason"), SILENT.values(), ids=SILENT)
async def test_a_call_that_is_not_answered_says_why(fleet: Fleet, mood: Mood, reason: str) -> None:
    worker = await fleet.add("w1", mood)
    prepared = a_call_to(worker.address, worker.credential.call_secret)
    body = write_request(prepared, 1, 3, acknowledged=[])
    seconds = 0.5 if mood is hang else 60
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session:
        with pytest.raises(CallFailed, match=reason):
            await send(session, prepared, body)
    worker.mood = well
    async with aiohttp.ClientSession() as session:
        answer = read_answer(await send(session, prepared, body), "w1", epoch=1, number=3)
    assert answer == WorkerHeartbeatAnswer(worker_id="w1", epoch=1, number=3)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://:x"])
async def test_nobody_at_an_address_is_a_failed_call(address: str) -> None:
    prepared = a_call_to(address)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        with pytest.raises(CallFailed):
            await send(session, prepared, b"{}")


@contextmanager
def a_full_listener() -> Iterator[str]:
    """Listen where nobody gets in any more, as where a host has vanished without a word."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_a_call_without_a_connection_in_time_was_not_sent() -> None:
    with a_full_listener() as address:
        async with LOOPBACK_ONLY.open_lines(2.0, 9) as lines:
            with pytest.raises(CallFailed, match="could not be connected to in time") as failed:
                await send(lines.to(address), a_call_to(address), b"{}")
    assert failed.value.was_not_sent
    assert not failed.value.is_ours


async def test_a_call_that_nobody_answers_may_have_been_received(fleet: Fleet) -> None:
    worker = await fleet.add("w1", hang)
    call = a_call_to(worker.address, worker.credential.call_secret)
    async with LOOPBACK_ONLY.open_lines(0.5, 9) as lines:
        body = write_request(call, 1, 3, acknowledged=[])
        with pytest.raises(CallFailed, match=r"no answer within 0\.5 s") as failed:
            await send(lines.to(worker.address), call, body)
    assert not failed.value.was_not_sent


@asynccontextmanager
async def a_stranger(says: bytes) -> AsyncIterator[str]:
    """Listen as something that is no worker, says its own, and closes."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(says)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


NOT_HTTP = r"Client(Response|Payload)Error: its answer is not HTTP"


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        (b"SSH-2.0-Hidden_9.6\r\n", NOT_HTTP),
        (b"HTTP/1.1 200 Hidden\r\nX-Hidden: hidden\r\n", "ServerDisconnectedError"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhidden\r\n", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhidden", NOT_HTTP),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\nhidden",
            NOT_HTTP,
        ),
        (b"", "ServerDisconnectedError"),
    ],
)
async def test_nothing_that_a_stranger_says_is_repeated(says: bytes, problem: str) -> None:
    async with a_stranger(says) as address, aiohttp.ClientSession() as session:
        with pytest.raises(CallFailed) as failed:
            await send(session, a_call_to(address), b"{}")
    assert re.fullmatch(problem, str(failed.value))
    assert not failed.value.was_not_sent
