"""Calls to a server: JSON over HTTP, one connection pool per event loop."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from holdfast.client.refusals import read_error
from holdfast.errors import Invalid, Unavailable

Answer = TypeVar("Answer")
DEFAULT_SERVER = "http://127.0.0.1:7878"
VARIABLE = "HOLDFAST_SERVER"
CALL_SECONDS_MAX = 30.0
PAUSE_SECONDS_MAX = 2.0
_encode = msgspec.json.Encoder().encode
_decoders: dict[Any, Any] = {}


def find_server(url: str | None = None) -> str:
    """Choose the server: the one given, that of the environment, or the local one."""
    chosen = (url or os.environ.get(VARIABLE) or DEFAULT_SERVER).rstrip("/")
    if not chosen.startswith(("http://", "https://")):
        raise Invalid("server", f"{chosen!r} is not a URL; write it like {DEFAULT_SERVER}")
    return chosen


class Transport:
    """The connections to one server; to be used by one event loop."""

    def __init__(self, server: str, *, actor: str | None = None, connections_max: int = 32) -> None:
        self.server = server
        self._headers = {"Content-Type": "application/json"}
        if actor:
            self._headers["Holdfast-Actor"] = actor
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections_max, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None, "a transport is left that was never entered"
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        returns: type[Answer],
        *,
        body: Any = None,
        query: Any = None,
        seconds_max: float = CALL_SECONDS_MAX,
    ) -> Answer:
        """Call a route once; raises what the server refuses, or Unavailable."""
        content = None if body is None else _encode(body)
        async with self._open(method, path, content, query, seconds_max) as response:
            return _decoder(returns)(await response.read())  # type: ignore[no-any-return]

    async def insist(
        self,
        method: str,
        path: str,
        returns: type[Answer],
        *,
        body: Any = None,
        query: Any = None,
        seconds_max: float = CALL_SECONDS_MAX,
    ) -> Answer:
        """Call a route that may be repeated, again and again while the server is unavailable."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds_max
        pause = 0.05
        while True:
            try:
                left = max(ends_at - loop.time(), 0.001)
                return await self.call(
                    method, path, returns, body=body, query=query, seconds_max=left
                )
            except Unavailable:
                if loop.time() + pause >= ends_at:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def follow(self, path: str, query: Any, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """Read the lines of an answer that goes on."""
        async with self._open("GET", path, None, query, None, headers) as response:
            async for line in response.content:
                yield line

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        content: bytes | None,
        query: Any,
        seconds_max: float | None,
        headers: dict[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None, "a transport is used that was never entered"
        url = f"{self.server}{path}{_query_text(query)}"
        try:
            async with (
                asyncio.timeout(seconds_max),
                self._session.request(
                    method, url, data=content, headers={**self._headers, **(headers or {})}
                ) as response,
            ):
                if response.status >= 400:
                    raise read_error(response.status, await response.read())
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            raise Unavailable(f"no answer from {self.server}: {what}") from error


def _query_text(query: Any) -> str:
    if query is None:
        return ""
    values = msgspec.to_builtins(query)
    pairs = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in values.items()
        if value is not None
    }
    return f"?{urlencode(pairs)}" if pairs else ""


def _decoder(shape: Any) -> Any:
    decode = _decoders.get(shape)
    if decode is None:
        decode = _decoders[shape] = msgspec.json.Decoder(shape).decode
    return decode
