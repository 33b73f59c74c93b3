"""Whether a server lives and can work, and what it has counted."""

import asyncio

from holdfast.api.route import Call, Reply, Route
from holdfast.errors import Unavailable
from holdfast.model.access.roles import EVERYBODY, Role
from holdfast.services.measuring.metrics import CONTENT_TYPE
from holdfast.wire.checkup import Health, Readiness
from holdfast.wire.requests import Nothing

PATIENCE_SECONDS = 2.0


async def is_alive(_: Call[None, Nothing]) -> Health:
    """Say that the process answers; nothing else is looked at."""
    return Health("ok")


async def is_ready(call: Call[None, Nothing]) -> Readiness:
    """Say whether this server can work now; 503 with the reason if not."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), call.runtime.probes.transaction() as tx:
            await tx.now()
    except TimeoutError as error:
        raise Unavailable("Postgres does not answer in time") from error
    return Readiness("ok", call.runtime.replica.state)


async def scrape(call: Call[None, Nothing]) -> Reply:
    """Give every metric in the form Prometheus reads."""
    content = await call.runtime.scrape()
    return Reply(content, content_type=CONTENT_TYPE.encode())


ROUTES = (
    Route("GET", "/healthz", is_alive, Health, EVERYBODY),
    Route("GET", "/readyz", is_ready, Readiness, EVERYBODY),
    Route("GET", "/metrics", scrape, None, Role.READ, content_type="text/plain"),
)
