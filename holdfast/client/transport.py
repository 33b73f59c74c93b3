"""Calls to a server: JSON and files over HTTP, one connection pool per event loop."""

import asyncio
import io
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec

from holdfast.client.pauses import Pauses, read_retry_after
from holdfast.client.refusals import ServerFailed, not_holdfast, read_error
from holdfast.client.token import AUTHORIZATION, Speaker, Token
from holdfast.errors import HoldfastError, Invalid, Refused, Unavailable
from holdfast.model.addresses import without_login
from holdfast.model.outage import Outage
from holdfast.model.programs import PROGRAM_HEADER, own_program
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.tls.calling import CertificateRefused, describe_refusal, open_calling
from holdfast.wire.bundles import OCTETS
from holdfast.wire.cluster import WORKER_HEADER

log = logging.getLogger("holdfast.client")
Answer = TypeVar("Answer")
Failure = TypeVar("Failure", bound=HoldfastError | None)
DEFAULT_SERVER = "http://127.0.0.1:7878"
VARIABLE = "HOLDFAST_SERVER"
UNAUTHENTICATED = 401
CALL_SECONDS_MAX = 30.0
CONNECT_SECONDS_MAX = 5.0
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0
# The server says at least every 15 seconds that a stream still lives.
QUIET_SECONDS_MAX = 45.0
LINE_BYTES_MAX = 8 << 20
PIECE_BYTES_MAX = 1 << 18
FAILURES_MAX = 3
_UNLESS_QUIET = aiohttp.ClientTimeout(
    total=None, sock_connect=CONNECT_SECONDS_MAX, sock_read=QUIET_SECONDS_MAX
)
_encode = msgspec.json.Encoder().encode
_decoders: dict[Any, Any] = {}


def find_server(url: str | None = None) -> str:
    """Choose the server: the one given, that of the environment, or the local one."""
    chosen = url or os.environ.get(VARIABLE) or DEFAULT_SERVER
    try:
        parts = urlsplit(chosen)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # as whoever connects will: `a..b` is no name
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment:
        # Not what has a login in it, and not what may be the rest of one.
        shown = "this" if "@" in chosen else repr(chosen)
        raise Invalid("server", f"{shown} is not a URL; write it like {DEFAULT_SERVER}")
    return chosen.rstrip("/")


class Transport:
    """The connections to one server; to be used by one event loop."""

    def __init__(
        self,
        server: str,
        *,
        actor: str | None = None,
        speaker: Speaker | None = None,
        connections_max: int = 32,
        outage: Outage | None = None,
        ca_file: str | None = None,
    ) -> None:
        self.server = server
        is_secure = server.startswith("https:")
        self._tls = open_calling(Path(ca_file) if ca_file else None) if is_secure else None
        self._shown = without_login(server)
        self._outage = outage
        self._headers = {"Content-Type": "application/json", PROGRAM_HEADER: own_program()}
        if actor:
            self._headers["Holdfast-Actor"] = actor
        self._speaker = speaker or Token()
        if without_login(server) != server and AUTHORIZATION in self._speaker.headers():
            problem = "has a login, and there is a token: only one of them can be sent"
            raise Invalid("server", problem)
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None

    def show(self, credential: WorkerCredential) -> None:
        """Call as a worker from here on."""
        self._headers[WORKER_HEADER] = credential.header

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections_max, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
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
        headers: Mapping[str, str] | None = None,
        seconds_max: float = CALL_SECONDS_MAX,
    ) -> Answer:
        """Call a route once; raises what the server refuses, or Unavailable.

        A body is sent as JSON, a Path as the file that is there.
        """
        url = f"{path}{_query_text(query)}"
        if isinstance(body, Path):
            headers = {"Content-Type": OCTETS, **(headers or {})}
        async with self._open(
            method, url, body=body, headers=headers, seconds_max=seconds_max
        ) as response:
            text = await response.read()
        try:
            return _decoder(returns)(text)  # type: ignore[no-any-return]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise not_holdfast(response.status, text) from error

    async def insist(
        self,
        method: str,
        path: str,
        returns: type[Answer],
        *,
        body: Any = None,
        query: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds_max: float = CALL_SECONDS_MAX,
        patience: float | None = None,
    ) -> Answer:
        """Call a route that may be repeated, again and again while the server is unavailable.

        All of it takes `seconds_max` at most, and `patience` at most once it has failed.
        """
        clock = asyncio.get_running_loop().time
        ends_at = clock() + seconds_max
        pauses, failures = Pauses(PAUSE_SECONDS, PAUSE_SECONDS_MAX), 0
        said: Unavailable | None = None
        while True:
            try:
                return await self.call(
                    method,
                    path,
                    returns,
                    body=body,
                    query=query,
                    headers=headers,
                    seconds_max=max(ends_at - clock(), 0.001),
                )
            except Unavailable as error:
                if not failures and patience is not None:
                    ends_at = min(ends_at, clock() + patience)
                failures += 1
                has_failed = isinstance(error, ServerFailed) and failures >= FAILURES_MAX
                pause = pauses.next(error)
                if said is not None and clock() >= ends_at:
                    raise said from error  # a try that was cut short knows less than the one before
                if has_failed or clock() + pause >= ends_at:
                    raise
                said = error
                if failures == 1:
                    log.warning("%s %s will be tried again: %s", method, path, error)
            await asyncio.sleep(pause)

    async def follow(
        self, path: str, query: Any, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """Read the lines of an answer that goes on."""
        async with self._open(
            "GET",
            f"{path}{_query_text(query)}",
            headers=headers,
            seconds_max=None,
            timeout=_UNLESS_QUIET,
            read_bufsize=LINE_BYTES_MAX,
        ) as response:
            async for line in response.content:
                yield line

    async def fetch(
        self, path: str, *, headers: Mapping[str, str] | None = None, seconds_max: float
    ) -> AsyncGenerator[bytes, None]:
        """Read a file piece by piece, once."""
        async with self._open(
            "GET", path, headers=headers, seconds_max=seconds_max, timeout=_UNLESS_QUIET
        ) as response:
            async for piece in response.content.iter_chunked(PIECE_BYTES_MAX):
                yield piece

    async def find_size(self, path: str) -> int | None:
        """Ask how large a file is; None if the server does not say, for whatever reason."""
        try:
            async with self._open(
                "HEAD", path, headers=None, seconds_max=CALL_SECONDS_MAX
            ) as response:
                return response.content_length
        except (Refused, Unavailable):  # without a body they have no words
            return None

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None,
        seconds_max: float | None,
        **options: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with asyncio.timeout(seconds_max), AsyncExitStack() as opened:
                send = partial(self._send, opened, method, url, body=body, **options)
                shown = self._speaker.headers()
                response = await send(headers={**shown, **(headers or {})})
                if response.status == UNAUTHENTICATED and self._speaker.read_again(shown):
                    await response.read()
                    response = await send(headers={**self._speaker.headers(), **(headers or {})})
                if response.status >= 300:
                    retry_after = read_retry_after(response.headers.get("Retry-After"))
                    content = await response.read()
                    raise self._noted(read_error(response.status, content, retry_after))
                self._noted(None)
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._noted(self._translate(error)) from error

    async def _send(
        self,
        opened: AsyncExitStack,
        method: str,
        url: str,
        *,
        body: Any,
        headers: Mapping[str, str],
        **options: Any,
    ) -> aiohttp.ClientResponse:
        """Send a request once; what is open for it is closed with the stack."""
        assert self._session is not None, "a transport is used that was never entered"
        content = opened.enter_context(_opened(body))
        if content is not None:
            options["data"] = content
        return await opened.enter_async_context(
            self._session.request(
                method,
                f"{self.server}{url}",
                headers={**self._headers, **headers},
                allow_redirects=False,
                ssl=True if self._tls is None else self._tls.current(),
                **options,
            )
        )

    def _translate(self, error: Exception) -> Unavailable:
        refusal = describe_refusal(error, self._shown)
        if refusal is not None:
            return CertificateRefused(refusal)
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        return Unavailable(f"no answer from {self._shown}: {what}")

    def _noted(self, error: Failure) -> Failure:
        """Note for the log whether the server is away; gives the error, if there is one."""
        if self._outage is not None:
            if isinstance(error, Unavailable) and not isinstance(error, ServerFailed):
                self._outage.note_failure(error, str(error))
            else:
                self._outage.note_success()
        return error


@contextmanager
def _opened(body: Any) -> Iterator[bytes | BinaryIO | None]:
    """Have a large body sent piece by piece: other calls share the event loop."""
    if isinstance(body, Path):
        with body.open("rb") as file:
            yield file
        return
    content = None if body is None else _encode(body)
    if content is None or len(content) <= PIECE_BYTES_MAX:
        yield content
    else:
        yield io.BytesIO(content)


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
