"""The addresses that running tasks publish: looked up, registered and removed."""

import asyncio
import time
from typing import TYPE_CHECKING

from holdfast.client.context import Lease
from holdfast.client.pages import read_pages, read_some
from holdfast.errors import NotFound
from holdfast.wire.endpoints import (
    LIST_PATH,
    REGISTER_PATH,
    REMOVE_PATH,
    EndpointListQuery,
    EndpointPage,
    EndpointRegisterRequest,
    EndpointRemoveRequest,
    EndpointStatus,
    endpoint_path,
)
from holdfast.wire.status import Changed

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
    query = EndpointListQuery(prefix or None, PER_PAGE)
    pages = read_pages(client.read, LIST_PATH, EndpointPage, query=query)
    return [endpoint async for page in pages for endpoint in page.endpoints]


async def list_some_endpoints(client: "Client", prefix: str, *, count_max: int) -> EndpointPage:
    """List so many at most of those."""
    query = EndpointListQuery(prefix or None)
    return await read_some(client.read, LIST_PATH, EndpointPage, query=query, count_max=count_max)


async def register_endpoint(
    client: "Client", lease: Lease, name: str, *, address: str
) -> EndpointStatus:
    """Publish an address in the name of a running attempt."""
    body = EndpointRegisterRequest(*lease, name, address)
    return await client.change(REGISTER_PATH, body, EndpointStatus, lease=lease)


async def remove_endpoint(client: "Client", lease: Lease, name: str) -> bool:
    """Take back what a running attempt has published; False if it has nothing of that name."""
    body = EndpointRemoveRequest(*lease, name)
    return (await client.change(REMOVE_PATH, body, Changed, lease=lease)).changed
