"""Listen for the heartbeat calls of the server: one route, for callers that know the secret."""

import hmac
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from aiohttp import web

from holdfast.tls.contexts import Identity, build_server_context
from holdfast.tls.roles import is_server
from holdfast.tls.watching import WatchedContext
from holdfast.wire.answers import ErrorAnswer, ErrorBody
from holdfast.wire.cluster import (
    HEARTBEAT_PATH,
    SECRET_HEADER,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.worker.placed.incarnation import CallRefused

log = logging.getLogger("holdfast.placed")
BODY_BYTES_MAX = 256 << 20
SHUTDOWN_SECONDS_MAX = 1.0
_decode = msgspec.json.Decoder(WorkerHeartbeatRequest).decode
_encode = msgspec.json.Encoder().encode
Obey = Callable[[WorkerHeartbeatRequest], WorkerHeartbeatAnswer]


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """What a worker shows, and the CA of the servers that may call it."""

    identity: Identity
    client_ca: Path

    def context(self) -> ssl.SSLContext:
        """Make the context of a listener, which follows its files."""
        files = [self.identity.cert, self.identity.key, self.client_ca]
        build = partial(build_server_context, self.identity, self.client_ca)
        return WatchedContext(files, build).listening()


@asynccontextmanager
async def listen_for_calls(
    host: str, port: int, *, secret: Callable[[], str], obey: Obey, tls: ListenerTls | None = None
) -> AsyncIterator[str]:
    """Listen for the time of a block; yields the address."""

    async def answer(request: web.Request) -> web.Response:
        if tls is not None and not is_server(request.get_extra_info("peercert")):
            return _refuse(403, "forbidden", "this call shows a certificate that is no server's")
        given = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(given.encode(), secret().encode()):
            return _refuse(403, "forbidden", "this call does not carry the secret of this worker")
        try:
            call = _decode(await request.read())
        except msgspec.DecodeError as error:
            return _refuse(400, "invalid", f"this call cannot be read: {error}")
        try:
            answered = obey(call)
        except CallRefused as error:
            return _refuse(409, "conflict", str(error))
        return web.Response(body=_encode(answered), content_type="application/json")

    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app.router.add_post(HEARTBEAT_PATH, answer)
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS_MAX
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=None if tls is None else tls.context())
        await site.start()
        host, port = runner.addresses[0][:2]
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    finally:
        await runner.cleanup()


def advertise(address: str, host: str | None) -> str:
    """Say where to call, if the host is known to others by another name or address."""
    if host is None:
        return address
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{host}:{rest.rpartition(':')[2]}"


def _refuse(status: int, code: str, message: str) -> web.Response:
    log.warning("a call was refused: %s", message)
    body = _encode(ErrorAnswer(ErrorBody(code, message)))
    return web.Response(status=status, body=body, content_type="application/json")
