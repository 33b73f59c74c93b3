"""Look up the addresses that running tasks have published."""

import asyncio
import time
from typing import TYPE_CHECKING

from holdfast.errors import NotFound
from holdfast.wire.endpoints import (
    LIST_PATH,
    EndpointListQuery,
    EndpointPage,
    EndpointStatus,
    endpoint_path,
)

if TYPE_CHECKING:
    from holdfast.client.client import Client

LOOK_SECONDS = 0.3
PER_PAGE = 1000


async def get_address(client: "Client", name: str, *, timeout: float = 0.0) -> str:
    """Look up an address by its name, and wait for it if need be; NotFound if nobody has it."""
    return (await get_endpoint(client, name, timeout=timeout)).address


async def get_endpoint(client: "Client", name: str, *, timeout: float = 0.0) -> EndpointStatus:
    """Look up an address with what is said of it, and wait for it if need be."""
    path = endpoint_path(name)
    ends_at = time.monotonic() + timeout
    while True:
        try:
            return await client.read(path, EndpointStatus)
        except NotFound:
            if time.monotonic() >= ends_at:
                raise
        await asyncio.sleep(LOOK_SECONDS)


async def list_endpoints(client: "Client", prefix: str = "") -> list[EndpointStatus]:
    """List what running tasks have published under names that begin so, by name."""
    found: list[EndpointStatus] = []
    query = EndpointListQuery(prefix or None, PER_PAGE)
    while True:
        page = await client.read(LIST_PATH, EndpointPage, query=query)
        found += page.endpoints
        if page.next_page_token is None:
            return found
        query = EndpointListQuery(prefix or None, PER_PAGE, page.next_page_token)
