"""Guards of a server's connections: how many, and how slow and how large a request may be.

A connection over the limit is answered 503 and closed. A request has a time for its headers, from
its first byte on (the first of a connection, from the connection on), and one for its body, which
grows with what has come: a large upload may take long, a trickle may not. Between requests a
connection is kept for a while, as Uvicorn does by itself.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holdfast.api.errors import body_of, encode_error
from holdfast.errors import LimitReached
from holdfast.model.limits.server_limits import ServerLimits

BODY_BYTES_PER_SECOND_MIN = 1024
# How many bytes a chunked body may need to say where its pieces of one byte begin and end.
FRAMING_MAX = 16
# How long and how many refused connections stay for what their callers still send. Closed at once,
# a connection is reset, and its caller may never see the answer.
LINGER_SECONDS = 1.0
LINGERING_MAX = 256
TIMED_OUT, HEADERS_TOO_LARGE, UNAVAILABLE = 408, 431, 503


class Guards:
    """The connections of one server, counted, and its limits for them."""

    def __init__(self, limits: ServerLimits, note: Callable[[str], None]) -> None:
        self.limits = limits
        self.open = 0
        self.lingering = 0
        self._note = note

    def refuse(self, name: str) -> LimitReached:
        """Make the error of a limit, and count that it was reached."""
        self._note(name)
        return self.limits.refusal(name)

    def protocol(self) -> type[HttpToolsProtocol]:
        """Make the class of connections that these guards look after."""
        return type("GuardedProtocol", (GuardedProtocol,), {"guards": self})


class GuardedProtocol(HttpToolsProtocol):
    """One connection of a server."""

    guards: ClassVar[Guards]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._reads_headers = True
        self._header_bytes = 0
        self._are_headers_too_large = False
        self._reads_body = False
        self._body_began_at = 0.0
        self._body_bytes = self._framed_bytes = 0
        self._is_counted = self._is_refused = self._lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a connection, or refuse it."""
        super().connection_made(transport)
        guards = self.guards
        if guards.open >= guards.limits.connections_max:
            self._refuse(UNAVAILABLE, "connections_max")
            return
        guards.open += 1
        self._is_counted = True
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._stop_timer()
        self.guards.open -= self._is_counted
        self.guards.lingering -= self._lingers
        super().connection_lost(exc)

    def data_received(self, received: bytes) -> None:
        """Pass on what comes, as long as it is within the limits."""
        if self._is_refused:
            return
        if self._reads_headers:
            self._header_bytes += len(received)
        elif self._reads_body:
            self._framed_bytes += len(received)
        super().data_received(received)
        if self._is_refused or self.transport.is_closing():
            return
        header_bytes_max = self.guards.limits.header_bytes_max
        # Behind a chunked body headers may follow: what is no body is bounded, too.
        trailing = self._framed_bytes - FRAMING_MAX * self._body_bytes if self._reads_body else 0
        if trailing > header_bytes_max or (
            self._reads_headers and self._header_bytes > header_bytes_max
        ):
            self._refuse(HEADERS_TOO_LARGE, "header_bytes_max")
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_headers()  # an empty line is no request, and must not keep it open for ever

    def on_message_begin(self) -> None:
        """Give a request time for its headers."""
        super().on_message_begin()
        if not self._reads_headers:
            self._reads_headers, self._header_bytes = True, 0
            self._await_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those behind a body are nobody's."""
        if self._reads_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Give a request time for its body."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.guards.limits.header_bytes_max:
            self._are_headers_too_large = True
            raise ValueError("the headers are too large")  # and the parser reads on no more
        self._reads_headers, self._reads_body = False, True
        self._body_bytes = self._framed_bytes = 0
        self._body_began_at = self.loop.time()
        self._arm(self.guards.limits.body_seconds_max, self._look_at_body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has come whole."""
        self._reads_body = False
        self._stop_timer()
        super().on_message_complete()

    def shutdown(self) -> None:
        """End what can end at once. A stream that its caller does not read would never."""
        super().shutdown()
        cycle = self.cycle
        if cycle is not None and cycle.chunked_encoding and self.flow.write_paused:
            self.transport.abort()  # whoever follows connects again and goes on where it was

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser has refused."""
        if self._are_headers_too_large:
            self._refuse(HEADERS_TOO_LARGE, "header_bytes_max")
        else:
            super().send_400_response(msg)

    def _await_headers(self) -> None:
        self._arm(self.guards.limits.header_seconds_max, self._time_out_headers)

    def _time_out_headers(self) -> None:
        self._refuse(TIMED_OUT, "header_seconds_max")

    def _look_at_body(self) -> None:
        now = self.loop.time()
        if self.flow.read_paused:
            self._body_began_at = now  # it is this server that does not read
        earned = self._body_bytes / BODY_BYTES_PER_SECOND_MIN
        late_at = self._body_began_at + self.guards.limits.body_seconds_max + earned
        if now < late_at:
            self._arm(late_at - now, self._look_at_body)
        else:
            self._refuse(TIMED_OUT, "body_seconds_max")

    def _arm(self, seconds: float, ring: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, ring)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, name: str) -> None:
        """Answer with a limit, if no answer has begun, and close."""
        self._is_refused = True
        self._stop_timer()
        error = self.guards.refuse(name)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        self.transport.write(_answer(status, error))
        if self.guards.lingering >= LINGERING_MAX:
            self.transport.close()
            return
        self.guards.lingering += 1
        self._lingers = True
        self._arm(LINGER_SECONDS, self.transport.close)


def _answer(status: int, error: LimitReached) -> bytes:
    content = encode_error(body_of(error))
    lines = [
        STATUS_LINE[status].rstrip(),
        b"content-type: application/json",
        b"content-length: %d" % len(content),
        b"connection: close",
    ]
    if status == UNAVAILABLE:
        lines.append(b"retry-after: %d" % (error.retry_after or 1))
    return b"\r\n".join([*lines, b"", content])
