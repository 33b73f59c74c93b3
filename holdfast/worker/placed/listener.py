"""Listen for the heartbeat calls of the server: one route, for callers that know the secret."""

import hmac
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

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


@asynccontextmanager
async def listen_for_calls(
    host: str, port: int, *, secret: Callable[[], str], obey: Obey
) -> AsyncIterator[str]:
    """Listen for the time of a block; yields the address."""

    async def answer(request: web.Request) -> web.Response:
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
        site = web.TCPSite(runner, host, port)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def _refuse(status: int, code: str, message: str) -> web.Response:
    log.warning("a call was refused: %s", message)
    body = _encode(ErrorAnswer(ErrorBody(code, message)))
    return web.Response(status=status, body=body, content_type="application/json")
