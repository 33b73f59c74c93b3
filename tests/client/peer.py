"""Somebody who answers HTTP as he is told: what a client meets on its way to a server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from holdfast.client.both import LoopThread


@dataclass
class Heard:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Read the body."""
        return msgspec.json.decode(self.body)


@dataclass(frozen=True)
class Say:
    """What to answer; without a status the connection is dropped when the request was heard."""

    status: int | None = 200
    body: bytes = b'{"changed": true}'
    headers: dict[str, str] = field(default_factory=dict)
    # Says no more for so long after the headers.
    silence: float = 0.0
    # Hangs up after the body, whatever length the headers have promised.
    hangs_up: bool = False


class Peer:
    """Says one thing after the other, the last one again and again."""

    def __init__(self) -> None:
        self.url = ""
        self.heard: list[Heard] = []
        self.script: list[Say] = [Say()]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Note a request and answer it."""
        body = await request.read()
        self.heard.append(Heard(request.method, request.path_qs, dict(request.headers), body))
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if said.status is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        response = web.StreamResponse(status=said.status, headers=said.headers)
        await response.prepare(request)
        await response.write(said.body)
        await asyncio.sleep(said.silence)
        if said.hangs_up:
            assert request.transport is not None
            request.transport.close()
        return response


@contextmanager
def listening() -> Iterator[Peer]:
    """Listen on a port of this machine for the time of a block."""
    peer = Peer()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{tail:.*}", peer.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    thread = LoopThread("peer")

    async def start() -> str:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    try:
        peer.url = thread.run(start())
        yield peer
    finally:
        thread.stop(runner.cleanup())
