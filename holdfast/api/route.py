"""One route: what it takes, what it answers, and the code between; also what OpenAPI says of it.

Each route is an ASGI application of its own: the hot routes pass no other layer than the router.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette import routing

from holdfast.api.errors import (
    INTERNAL,
    RETRY_AFTER_SECONDS,
    RETRY_AFTER_STATUSES,
    UnsupportedMediaType,
    body_of,
    encode_error,
    status_of,
)
from holdfast.api.hosts import Hosts
from holdfast.errors import HoldfastError, Invalid, Stopping, TooLarge
from holdfast.model.shapes import as_invalid
from holdfast.rules.submission import check_text
from holdfast.services.runtime import Runtime
from holdfast.wire.answers import ErrorBody
from holdfast.wire.bundles import OCTETS
from holdfast.wire.requests import WAIT_MS_MAX, Nothing

log = logging.getLogger("holdfast.api")
BODY_BYTES_MAX = 64 << 20
JSON = b"application/json"
OCTETS_TYPE = OCTETS.encode()
NOSNIFF = (b"x-content-type-options", b"nosniff")
Body = TypeVar("Body")
Query = TypeVar("Query")
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Octets:
    """A body of plain bytes that is read while it comes; declared as `body=Octets`."""

    headers: dict[bytes, bytes]
    receive: Receive

    def read(self, bytes_max: int) -> AsyncGenerator[bytes, None]:
        """Read it piece by piece; raises TooLarge where it exceeds the limit, or says it will."""
        return _read_pieces(self.headers, self.receive, bytes_max)


@dataclass(slots=True)
class Call(Generic[Body, Query]):
    """One request, read and checked."""

    runtime: Runtime
    path: dict[str, str]
    query: Query
    body: Body
    actor: str
    headers: dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status or a type of its own."""

    content: Any
    status: int = 200
    content_type: bytes = JSON


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on as long as somebody reads it."""

    chunks: AsyncGenerator[bytes, None]
    content_type: bytes = b"text/event-stream"
    length: int | None = None


@dataclass(frozen=True)
class Route:
    """A method, a path, the shapes that go in and out, and the function between them."""

    method: str
    path: str
    answer: Callable[[Call[Any, Any]], Awaitable[Any]]
    returns: Any
    body: type | None = None
    query: type = Nothing
    # Statuses beside the usual errors, with the shape of their answer.
    also: Mapping[int, Any] = field(default_factory=dict)
    content_type: str = "application/json"
    waits: bool = False

    def bind(self, runtime: Runtime, hosts: Hosts) -> routing.Route:
        """Make it serve in one server: a path, and an ASGI application of its own."""
        return routing.Route(self.path, BoundRoute(self, runtime, hosts), methods=[self.method])


class BoundRoute:
    """A route at work in one server."""

    def __init__(self, route: Route, runtime: Runtime, hosts: Hosts) -> None:
        self._route = route
        self._runtime = runtime
        self._check_caller = hosts.check
        self._decode: Callable[[bytes], Any] | None = (
            msgspec.json.Decoder(route.body).decode if route.body not in (None, Octets) else None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing that goes wrong here ends the connection without a word."""
        try:
            call = await self._read(scope, receive)
            answer = self._route.answer(call)
            answered = await (_unless_gone(answer, receive) if self._route.waits else answer)
            if answered is _GONE:
                return
            if not isinstance(answered, Stream):
                reply = answered if isinstance(answered, Reply) else Reply(answered)
                content = reply.content
                content = content if isinstance(content, bytes) else _encode(content)
        except HoldfastError as error:
            await send_error(send, status_of(error), body_of(error))
            return
        except Exception:
            about = self._describe(scope)
            log.exception("%s %s failed", scope["method"], scope["path"], extra=about)
            await send_error(send, 500, INTERNAL)
            return
        if isinstance(answered, Stream):
            await _send_stream(answered, receive, send, is_wanted=scope["method"] != "HEAD")
        else:
            await _send(send, reply.status, content, content_type=reply.content_type)

    def _describe(self, scope: Scope) -> dict[str, object]:
        """Give the fields of a log line about a request for a job or for one of its tasks."""
        path = scope["path_params"]
        job_id = path.get("job_id") or path.get("task_id", "").partition(".")[0]
        return self._runtime.ledger.specs.describe(int(job_id)) if job_id.isdecimal() else {}

    async def _read(self, scope: Scope, receive: Receive) -> Call[Any, Any]:
        route = self._route
        if self._runtime.is_stopping:
            raise Stopping("this server is shutting down; call another, or this one later")
        headers = dict(scope["headers"])
        self._check_caller(headers)
        body: Any = None
        if route.body is Octets:
            _check_type(headers, OCTETS_TYPE)
            body = Octets(headers, receive)
        elif self._decode is not None:
            content = await _read_body(headers, receive)
            body = self._parse(content, headers)
        return Call(
            self._runtime,
            scope["path_params"],
            _parse_query(scope["query_string"], route.query),
            body,
            _actor_of(headers),
            headers,
        )

    def _parse(self, content: bytes, headers: dict[bytes, bytes]) -> Any:
        assert self._decode is not None
        if content:
            _check_type(headers, JSON)
        try:
            return self._decode(content or b"{}")
        except msgspec.ValidationError as error:
            raise as_invalid(error, "body") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid("body", f"is not JSON: {error}") from error


async def send_error(send: Send, status: int, body: ErrorBody, **headers: str) -> None:
    """Send an error in the shape that all of them have."""
    extra = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    if status in RETRY_AFTER_STATUSES:
        extra.append((b"retry-after", str(RETRY_AFTER_SECONDS).encode()))
    await _send(send, status, encode_error(body), content_type=JSON, extra=extra)


async def _send(
    send: Send,
    status: int,
    content: bytes,
    *,
    content_type: bytes,
    extra: list[tuple[bytes, bytes]] | None = None,
) -> None:
    length = (b"content-length", str(len(content)).encode())
    headers = [(b"content-type", content_type), length, NOSNIFF]
    await send(
        {"type": "http.response.start", "status": status, "headers": headers + (extra or [])}
    )
    await send({"type": "http.response.body", "body": content})


async def _send_stream(stream: Stream, receive: Receive, send: Send, *, is_wanted: bool) -> None:
    headers = [
        (b"content-type", stream.content_type),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),  # or nginx keeps what should arrive at once
        NOSNIFF,
    ]
    if stream.length is not None:
        headers.append((b"content-length", str(stream.length).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def pour() -> None:
        async with aclosing(stream.chunks) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

    if not is_wanted or await _unless_gone(pour(), receive) is not _GONE:
        await send({"type": "http.response.body", "body": b""})


_GONE = object()


async def _unless_gone(answer: Awaitable[Any], receive: Receive) -> Any:
    """Wait for an answer as long as somebody waits for it; else give it up."""
    working = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else _GONE
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    return b"".join([piece async for piece in _read_pieces(headers, receive, BODY_BYTES_MAX)])


async def _read_pieces(
    headers: dict[bytes, bytes], receive: Receive, bytes_max: int
) -> AsyncGenerator[bytes, None]:
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > bytes_max:
        raise TooLarge("body", int(declared), bytes_max)
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("body", "ended before its length")
        piece = message.get("body", b"")
        size += len(piece)
        if size > bytes_max:
            raise TooLarge("body", size, bytes_max)
        yield piece
        if not message.get("more_body"):
            return


def _check_type(headers: dict[bytes, bytes], wanted: bytes) -> None:
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != wanted:
        raise UnsupportedMediaType(kind.decode("latin-1") or "nothing", wanted.decode())


def _parse_query(text: bytes, shape: type) -> Any:
    if not text and shape is Nothing:
        return None
    values: dict[str, str] = {}
    try:
        for name, value in parse_qsl(text.decode(), keep_blank_values=True, errors="strict"):
            if name in values:
                raise Invalid(name, "is given twice; give it once")
            values[name] = value
        query: Any = msgspec.convert(values, shape, strict=False)
        for name, value in values.items():
            # A number that may be left out would take this for none.
            if getattr(query, name, value) is None:
                raise Invalid(name, f"{value!r} is not a value; leave it out instead")
        return query
    except UnicodeDecodeError as error:
        raise Invalid("query", "is not UTF-8; encode it") from error
    except msgspec.ValidationError as error:
        raise as_invalid(error, "query") from error


def _actor_of(headers: dict[bytes, bytes]) -> str:
    """Say who asks, as far as he says so; tokens that prove it are not asked for on loopback."""
    actor = headers.get(b"holdfast-actor", b"").decode("latin-1").strip() or "api"
    check_text("Holdfast-Actor", actor, 256)
    return actor


def check_wait(wait_ms: int) -> int:
    """Refuse to wait for ever, or for less than nothing."""
    if not 0 <= wait_ms <= WAIT_MS_MAX:
        raise Invalid("wait_ms", f"is not from 0 to {WAIT_MS_MAX}")
    return wait_ms


def decode_text(content: msgspec.Raw, field: str) -> str:
    """Take JSON as the text it came as."""
    try:
        return bytes(content).decode()
    except UnicodeDecodeError as error:
        raise Invalid(field, "is not UTF-8; send valid Unicode") from error
