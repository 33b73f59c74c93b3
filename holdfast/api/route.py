"""One route: what it takes, what it answers, and the code between; also what OpenAPI says of it.

Each route is an ASGI application of its own: the hot routes pass no other layer than the router.
"""

import asyncio
import dataclasses
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette import routing

from holdfast.api.attempts import (
    LEASE_HEADER,
    AttemptMay,
    NamesLease,
    admit_attempt,
    check_given,
    check_named,
    read_lease,
)
from holdfast.api.bodies import OCTETS_TYPE, Octets, Receive, check_type, read_body
from holdfast.api.errors import (
    INTERNAL,
    RETRY_AFTER_SECONDS,
    RETRY_AFTER_STATUSES,
    body_of,
    encode_error,
    status_of,
)
from holdfast.api.hosts import Hosts
from holdfast.api.reach import check_jobs, check_path
from holdfast.errors import HoldfastError, Invalid, Stopping, Unavailable
from holdfast.model.access.actors import Actor
from holdfast.model.access.callers import ANYBODY, Caller
from holdfast.model.access.roles import EVERYBODY, Role
from holdfast.model.shapes import as_invalid
from holdfast.model.work.fence import Fence
from holdfast.rules.submitting.submission import check_text
from holdfast.services.runtime import Runtime
from holdfast.store.database import Database
from holdfast.wire.answers import ErrorBody
from holdfast.wire.requests import WAIT_MS_MAX, Nothing, Request

log = logging.getLogger("holdfast.api")
UNAUTHENTICATED = 401
AUTHORIZATION = b"authorization"
ADMITTED_SECONDS = 1.0  # for so long it is known who asks; a revocation takes longer to be heard of
JSON = b"application/json"
NOSNIFF = (b"x-content-type-options", b"nosniff")
STOPPING = "this server is shutting down; call another, or this one later"
Body = TypeVar("Body")
Query = TypeVar("Query")
Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Call(Generic[Body, Query]):
    """One request, read and checked."""

    runtime: Runtime
    path: dict[str, str]
    query: Query
    body: Body
    actor: str
    headers: dict[bytes, bytes]
    caller: Caller = ANYBODY
    # Where to read, if not at the primary; see Route.at_replica.
    replica: Database | None = None

    @property
    def reads(self) -> Database:
        """Say where this call reads what people want to see."""
        return self.runtime.reads if self.replica is None else self.replica

    async def check_jobs(self, job_ids: Iterable[int]) -> None:
        """Refuse jobs that this caller may not reach."""
        if self.caller.attempt is None:
            await check_jobs(self.runtime, self.caller, job_ids)
        else:
            await check_given(self.runtime, self.caller.attempt, job_ids)

    def fence_of(self, named: NamesLease) -> Fence:
        """Take the lease that a body names; who calls by a lease of his own can name no other."""
        return check_named(self.caller, named)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status or a type of its own."""

    content: Any
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on as long as somebody reads it."""

    chunks: AsyncGenerator[bytes, None]
    content_type: bytes = b"text/event-stream"
    length: int | None = None


class Narrowing(Enum):
    """How a route keeps a token to the owners and queues that it names."""

    PATH = "by the job or task in its path; without one, not at all: such tokens are refused"
    FUNCTION = "by what the request asks for: the function between narrows it, or refuses"
    REFUSED = "not at all, though a job is in its path: others would be reached, too"


@dataclass(frozen=True)
class Route:
    """A method, a path, the shapes that go in and out, and the function between them."""

    method: str
    path: str
    answer: Callable[[Call[Any, Any]], Awaitable[Any]]
    returns: Any
    # Who may call it: asked for of every route, so that none is open because it was forgotten.
    role: Role | None
    body: type | None = None
    query: type[Request] = Nothing
    # Statuses beside the usual errors, with the shape of their answer.
    also: Mapping[int, Any] = field(default_factory=dict)
    content_type: str = "application/json"
    waits: bool = False
    # What a token that names owners or queues may reach here; see Narrowing.
    narrowing: Narrowing = Narrowing.PATH
    # Whether a running attempt may call it in its own name; see AttemptMay.
    attempt: AttemptMay = AttemptMay.NO
    # Whether a read replica may answer it: only reads that ask `call.reads`.
    at_replica: bool = False

    def bind(self, runtime: Runtime, hosts: Hosts) -> routing.Route:
        """Make it serve in one server: a path, and an ASGI application of its own."""
        return routing.Route(self.path, BoundRoute(self, runtime, hosts), methods=[self.method])


class BoundRoute:
    """A route at work in one server."""

    def __init__(self, route: Route, runtime: Runtime, hosts: Hosts) -> None:
        self._route = route
        self._runtime = runtime
        self._check_host = hosts.check
        self._name = f"{route.method} {route.path}"
        self._decode: Callable[[bytes], Any] | None = (
            msgspec.json.Decoder(route.body).decode if route.body not in (None, Octets) else None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing that goes wrong here ends the connection without a word."""
        try:
            call = await self._read(scope, receive)
            asked = self._answer_at_replica if self._route.at_replica else self._route.answer
            answer = asked(call)
            answered = await (_unless_gone(answer, receive) if self._route.waits else answer)
            if answered is _GONE:
                return
            if isinstance(answered, Stream):
                streamer = _streamer(call, scope) if answered.length is None else None
                self._runtime.streams.check(streamer)
            else:
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
        except asyncio.CancelledError:
            if not self._runtime.is_stopping:
                raise
            # It has had all the time that a stop leaves to what is in flight.
            await send_error(send, 503, body_of(Stopping(STOPPING)))
            return
        if isinstance(answered, Stream):
            is_wanted = scope["method"] != "HEAD"
            # A stop cancels one that takes too long, and closes what is not complete.
            with suppress(asyncio.CancelledError), self._runtime.streams.opened(streamer):
                await _send_stream(answered, receive, send, is_wanted=is_wanted, caller=call.caller)
        else:
            extra = list(reply.headers)
            kind = reply.content_type
            await _send(send, reply.status, content, content_type=kind, extra=extra)

    async def _answer_at_replica(self, call: Call[Any, Any]) -> Any:
        """Answer by what the read replica has, and by the primary if that fails."""
        replica = await self._runtime.replica.find()
        if replica is not None:
            try:
                return await self._route.answer(dataclasses.replace(call, replica=replica))
            except Unavailable as error:
                self._runtime.replica.doubt(error)
        return await self._route.answer(call)

    def _describe(self, scope: Scope) -> dict[str, object]:
        """Give the fields of a log line about a request for a job or for one of its tasks."""
        path = scope["path_params"]
        job_id = path.get("job_id") or path.get("task_id", "").partition(".")[0]
        return self._runtime.ledger.specs.describe(int(job_id)) if job_id.isdecimal() else {}

    async def _read(self, scope: Scope, receive: Receive) -> Call[Any, Any]:
        route = self._route
        if self._runtime.is_stopping:
            raise Stopping(STOPPING)
        headers = dict(scope["headers"])
        self._check_host(headers)
        caller = await self._admit(scope, headers)
        body: Any = None
        if route.body is Octets:
            check_type(headers, OCTETS_TYPE)
            body = Octets(headers, receive)
        elif self._decode is not None:
            began_at = time.monotonic()
            is_strangers = route.role is EVERYBODY
            content = await read_body(headers, receive, is_strangers=is_strangers)
            if time.monotonic() - began_at >= ADMITTED_SECONDS:
                # A body may take hours to come; a token is revoked and a lease released meanwhile.
                caller = await self._admit(scope, headers)
            body = self._parse(content, headers)
        return Call(
            self._runtime,
            scope["path_params"],
            _parse_query(scope["query_string"], route.query),
            body,
            Actor(caller.name, caller.token_id) if caller.name else _actor_of(headers),
            headers,
            caller,
        )

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller:
        """Find out who asks, and refuse what is not for him, before anything else is read."""
        route, callers = self._route, self._runtime.callers
        if callers is None or route.role is EVERYBODY:
            return ANYBODY
        # A lease goes first where a token would have to be a worker's, and last elsewhere.
        if LEASE_HEADER in headers and (route.role is Role.WORKER or AUTHORIZATION not in headers):
            fence = read_lease(headers)
            assert fence is not None, "a lease is shown"
            return await admit_attempt(
                self._runtime, fence, route.attempt, path=scope["path_params"], what=self._name
            )
        caller = await callers.identify(headers, scope["method"])
        caller.check_role(route.role, self._name)
        if caller.is_narrow and route.narrowing is not Narrowing.FUNCTION:
            if route.narrowing is Narrowing.REFUSED:
                caller.refuse_narrow(self._name)
            await check_path(self._runtime, caller, scope["path_params"], what=self._name)
        return caller

    def _parse(self, content: bytes, headers: dict[bytes, bytes]) -> Any:
        assert self._decode is not None
        if content:
            check_type(headers, JSON)
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
        seconds = (body.details or {}).get("retry_after") or RETRY_AFTER_SECONDS
        extra.append((b"retry-after", str(seconds).encode()))
    if body.code == Stopping.code:
        extra.append((b"connection", b"close"))  # the next call is for another server
    if status == UNAUTHENTICATED:
        extra.append((b"www-authenticate", b'Bearer realm="holdfast"'))
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


async def _send_stream(
    stream: Stream, receive: Receive, send: Send, *, is_wanted: bool, caller: Caller
) -> None:
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
                if caller.is_over:
                    return  # he has lost his token since
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


def _streamer(call: Call[Any, Any], scope: Scope) -> str:
    """Name whose streams are counted: those of a token or, without one, of an address."""
    return call.caller.name or str((scope.get("client") or ("nowhere",))[0])


def _parse_query(text: bytes, shape: type[Request]) -> Any:
    if not text and shape is Nothing:
        return None
    values: dict[str, str] = {}
    try:
        for name, value in parse_qsl(text.decode(), keep_blank_values=True, errors="strict"):
            if name in values and name not in shape.repeatable:
                raise Invalid(name, "is given twice; give it once")
            values[name] = f"{values[name]},{value}" if name in values else value
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
