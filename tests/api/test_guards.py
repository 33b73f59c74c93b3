"""The guards of connections, met with real sockets: slow, large and too many."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import uvicorn
from uvicorn.server import ServerState

from holdfast.api import guards
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.server import Address, RunningServer, serve
from holdfast.services.runtime import Options
from tests.waiting import eventually

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
STREAM = b"GET /api/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def serving(database_url: str, **limits: Any) -> AsyncIterator[RunningServer]:
    options = Options(database_url, server_limits=ServerLimits(**limits))
    async with serve(options, Address(port=0)) as server:
        yield server


@asynccontextmanager
async def connected(server: RunningServer) -> AsyncIterator[Wire]:
    port = urlsplit(server.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def post(length: int) -> bytes:
    return (
        b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % length
    )


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], Any]:
    """Read one answer: its status, its headers, and its error if it is one."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    status = int(head[0].split()[1])
    if "content-length" not in headers:
        return status, headers, None
    body = msgspec.json.decode(await reader.readexactly(int(headers["content-length"])))
    return status, headers, body.get("error")


async def count_refusals(server: RunningServer, limit: str) -> float:
    text = (await server.runtime.scrape()).decode()
    name = f'holdfast_limit_refusals_total{{limit="{limit}"}} '
    [line] = [line for line in text.splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))


async def assert_refused(
    server: RunningServer, wire: Wire, status: int, limit: str, *, saying: bytes = b""
) -> dict[str, str]:
    """Expect the answer of a limit, the end of the connection, and that it is counted.

    Until the answer is there, a few bytes are said again and again.
    """
    trickle = asyncio.create_task(_trickle(wire[1], saying))
    found, headers, error = await read_answer(wire[0])
    trickle.cancel()
    assert (found, error["code"], error["details"]["limit"]) == (status, "limit_reached", limit)
    flag = f"--{limit.replace('_', '-')}"
    assert error["details"]["setting"] == flag
    assert flag in error["message"]
    assert headers["connection"] == "close"
    assert await wire[0].read() == b""
    assert await count_refusals(server, limit) == 1
    return headers


async def test_one_connection_too_many_is_answered_503_and_others_go_on(database_url: str) -> None:
    async with serving(database_url, connections_max=2) as server:
        async with connected(server) as first, connected(server) as second:
            for reader, writer in (first, second):
                writer.write(HEALTH)
                assert (await read_answer(reader))[0] == 200
            assert b"holdfast_connections 2.0" in await server.runtime.scrape()
            async with connected(server) as third:
                third[1].write(HEALTH)
                headers = await assert_refused(server, third, 503, "connections_max")
                assert int(headers["retry-after"]) >= 1
            first[1].write(HEALTH)
            assert (await read_answer(first[0]))[0] == 200

        async def is_let_in() -> bool:
            async with connected(server) as (reader, writer):
                writer.write(HEALTH)
                return (await read_answer(reader))[0] == 200

        await eventually(is_let_in)


async def test_over_the_limit_only_some_wait_for_their_callers(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "LINGERING_MAX", 1)
    monkeypatch.setattr(guards, "LINGER_SECONDS", 60.0)
    async with serving(database_url, connections_max=1) as server, connected(server) as first:
        first[1].write(HEALTH)
        await read_answer(first[0])
        async with connected(server) as lingering, connected(server) as closed:
            assert (await read_answer(lingering[0]))[0] == 503
            assert (await read_answer(closed[0]))[0] == 503
            assert await closed[0].read() == b""
            assert not lingering[0].at_eof()


async def test_headers_that_do_not_end_are_timed_out_however_they_trickle(
    database_url: str,
) -> None:
    async with serving(database_url, header_seconds_max=0.3) as server, connected(server) as wire:
        wire[1].write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        await assert_refused(server, wire, 408, "header_seconds_max", saying=b"X-More: 1\r\n")


async def _trickle(writer: asyncio.StreamWriter, text: bytes) -> None:
    while text:
        writer.write(text)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("said", [b"", b"\r\n"])
async def test_a_connection_that_asks_for_nothing_is_closed(database_url: str, said: bytes) -> None:
    async with serving(database_url, header_seconds_max=0.2) as server, connected(server) as wire:
        wire[1].write(said)
        await assert_refused(server, wire, 408, "header_seconds_max")


async def test_an_empty_line_after_a_request_does_not_keep_a_connection(database_url: str) -> None:
    async with serving(database_url, header_seconds_max=0.2) as server, connected(server) as wire:
        wire[1].write(HEALTH)
        assert (await read_answer(wire[0]))[0] == 200
        wire[1].write(b"\r\n")
        await assert_refused(server, wire, 408, "header_seconds_max")


async def test_the_second_request_of_a_connection_has_its_own_time(database_url: str) -> None:
    async with serving(database_url, header_seconds_max=0.2) as server, connected(server) as wire:
        wire[1].write(HEALTH)
        assert (await read_answer(wire[0]))[0] == 200
        wire[1].write(HEALTH[:-2])
        await assert_refused(server, wire, 408, "header_seconds_max")


@pytest.mark.parametrize(
    "line", [b"X-%d: " + b"y" * 1000 + b"\r\n", b"z" * 1000], ids=["many", "one"]
)
async def test_headers_without_end_are_refused_while_they_come(
    database_url: str, line: bytes
) -> None:
    async with serving(database_url) as server, connected(server) as wire:
        reader, writer = wire
        writer.write(HEALTH[:-2] + (b"" if b"\r" in line else b"X-Long: "))
        sent = 0
        reading = asyncio.create_task(read_answer(reader))
        while not reading.done() and sent < 40 << 20:
            writer.write((line % sent if b"%d" in line else line) * 16)
            sent += 16 * len(line)
            await asyncio.sleep(0)
            await writer.drain()
        status, _, error = await reading
        assert (status, error["details"]["limit"]) == (431, "header_bytes_max")
        assert sent < 8 << 20
        assert await count_refusals(server, "header_bytes_max") == 1


async def test_headers_that_come_at_once_are_measured_too(database_url: str) -> None:
    async with serving(database_url, header_bytes_max=1000) as server, connected(server) as wire:
        wire[1].write(HEALTH[:-2] + b"X-Long: " + b"y" * 900 + b"\r\n\r\n")
        assert (await read_answer(wire[0]))[0] == 200
        wire[1].write(HEALTH[:-2] + b"X-Long: " + b"y" * 1000 + b"\r\n\r\n")
        await assert_refused(server, wire, 431, "header_bytes_max")


async def test_headers_behind_a_body_are_bounded(database_url: str) -> None:
    async with serving(database_url, header_bytes_max=1000) as server, connected(server) as wire:
        head = post(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        wire[1].write(head + b"2\r\n{}\r\n0\r\n")
        await assert_refused(server, wire, 431, "header_bytes_max", saying=b"X-More: 1\r\n" * 20)


async def test_a_body_that_does_not_come_is_timed_out(database_url: str) -> None:
    async with serving(database_url, body_seconds_max=0.3) as server, connected(server) as wire:
        wire[1].write(post(1000) + b"{")
        await assert_refused(server, wire, 408, "body_seconds_max", saying=b" ")


async def test_a_body_earns_time_by_what_has_come(database_url: str) -> None:
    async with serving(database_url, body_seconds_max=0.2) as server, connected(server) as wire:
        body = b'{"entrypoint": {"function": "app:work"}, "queue": "q"}'
        wire[1].write(post(20_000) + b" " * 10_000)
        loop = asyncio.get_running_loop()
        resumed: asyncio.Future[None] = loop.create_future()
        loop.call_later(0.6, resumed.set_result, None)  # the server's clock is what is tested
        await resumed
        wire[1].write(body.rjust(10_000))
        assert (await read_answer(wire[0]))[0] == 201


async def test_a_long_wait_for_an_answer_is_no_slow_request(database_url: str) -> None:
    async with (
        serving(database_url, header_seconds_max=0.1, body_seconds_max=0.1) as server,
        connected(server) as wire,
    ):
        body = b'{"worker_id": "w1", "queues": ["q"], "wait_ms": 600}'
        wire[1].write(post(len(body)).replace(b"/api/jobs", b"/internal/task-claim") + body)
        assert (await read_answer(wire[0]))[0] == 200


async def test_one_stream_too_many_of_a_caller_is_answered_429(database_url: str) -> None:
    async with (
        serving(database_url, streams_max=1) as server,
        connected(server) as first,
        connected(server) as second,
    ):
        first[1].write(STREAM)
        assert (await read_answer(first[0]))[0] == 200
        assert b"holdfast_streams 1.0" in await server.runtime.scrape()
        second[1].write(STREAM)
        status, headers, error = await read_answer(second[0])
        assert (status, error["details"]["limit"]) == (429, "streams_max")
        assert headers["retry-after"] == "5"
        assert await count_refusals(server, "streams_max") == 1
        first[1].transport.abort()
        await eventually(lambda: not server.runtime.streams.count())
        second[1].write(STREAM)
        assert (await read_answer(second[0]))[0] == 200


@pytest.mark.parametrize(("length", "is_left"), [(None, False), (b"99999999999", True)])
async def test_a_stop_does_not_wait_for_who_reads_no_stream(
    length: bytes | None, *, is_left: bool
) -> None:
    async def pour(_: Any, receive: Any, send: Any) -> None:
        headers = [] if length is None else [(b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        assert (await receive())["type"] == "http.request"
        leaving = asyncio.create_task(receive())
        while not leaving.done():
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
            await asyncio.sleep(0)

    state = ServerState()
    connections: set[Any] = state.connections
    async with listening(pour, state) as port:
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(HEALTH)
            await eventually(lambda: [each for each in connections if each.flow.write_paused])
            [connection] = connections
            connection.shutdown()
            # What ends by itself is given its time.
            await eventually(lambda: bool(connections) == is_left)
            assert connection.flow.write_paused == is_left
        await eventually(lambda: not state.tasks)


@asynccontextmanager
async def listening(app: Any, state: ServerState) -> AsyncIterator[int]:
    """Serve an application of one's own behind guards; yields the port."""
    protocol = guards.Guards(ServerLimits(), lambda _: None).protocol()
    config = uvicorn.Config(app, http=protocol, ws="none", lifespan="off", log_config=None)
    config.load()

    def connect() -> Any:
        return protocol(config=config, server_state=state, app_state={})

    async with await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
