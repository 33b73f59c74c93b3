"""Whether a server lives and can work, and what it has counted."""

import asyncio

from holdfast.api.endpoint import Call, Endpoint, Reply
from holdfast.errors import Unavailable
from holdfast.services.metrics import CONTENT_TYPE
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Health

PATIENCE_SECONDS = 2.0


async def is_alive(_: Call[None, Nothing]) -> Health:
    """Say that the process answers; nothing else is looked at."""
    return Health("ok")


async def is_ready(call: Call[None, Nothing]) -> Reply:
    """Say whether this server can work now: 503 with the reasons if not."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), call.runtime.reads.transaction() as tx:
            await tx.now()
    except Unavailable as error:
        return Reply(Health("unavailable", [str(error)]), 503)
    except TimeoutError:
        return Reply(Health("unavailable", ["Postgres does not answer in time"]), 503)
    return Reply(Health("ok"))


async def scrape(call: Call[None, Nothing]) -> Reply:
    """Give every metric in the form Prometheus reads."""
    content = await call.runtime.scrape()
    return Reply(content, content_type=CONTENT_TYPE.encode())


ENDPOINTS = (
    Endpoint("GET", "/healthz", is_alive, Health),
    Endpoint("GET", "/readyz", is_ready, Health, also={503: Health}),
    Endpoint("GET", "/metrics", scrape, None, content_type="text/plain"),
)
