"""Addresses that running attempts publish under a name.

A name is held as long as the lease of its attempt lives. From then on it is not found any more, and
whoever comes next may have it; the attempt that had it cannot take it back.
"""

import re

from holdfast.errors import IllegalMove, Invalid, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence, check_fence
from holdfast.model.work.ids import AttemptId
from holdfast.rules.submitting.submission import NAME_LENGTH_MAX, check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.pages import Page, fill_page
from holdfast.store.tables.output import endpoints
from holdfast.store.tables.output.endpoints import Published
from holdfast.store.tables.work.leases import has_live_lease

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
ADDRESS_LENGTH_MAX = 1024
METADATA_BYTES_MAX = 4096
ENDPOINTS_MAX = 100


async def register_endpoint(
    ledger: Ledger, fence: Fence, name: str, *, address: str, metadata: str | None = None
) -> Published:
    """Publish an address; IllegalMove if another task that runs has the name."""
    check_fence(fence)
    check_name(name)
    if not address:
        raise Invalid("address", "is empty; give host:port, a URL or the like")
    check_text("address", address, ADDRESS_LENGTH_MAX)
    if metadata is not None:
        check_json("metadata", metadata, METADATA_BYTES_MAX)
    async with ledger.database.transaction() as tx:
        if not await endpoints.hold_publisher(tx, fence):
            raise LeaseConflict(fence.task_id, "the lease is lost; it can publish nothing any more")
        await _check_count(tx, fence, name)
        await _take_name(tx, fence, name)
        return await endpoints.put_endpoint(tx, fence, name, address=address, metadata=metadata)


async def remove_endpoint(ledger: Ledger, fence: Fence, name: str) -> bool:
    """Take back what this attempt has published; False if it has nothing of that name."""
    check_fence(fence)
    check_name(name)
    async with ledger.database.transaction() as tx:
        if not await has_live_lease(tx, fence):
            raise LeaseConflict(fence.task_id, "the lease is lost; its endpoints are gone with it")
        return await endpoints.remove_endpoint(tx, fence, name)


async def get_endpoint(tx: Transaction, name: str) -> Published:
    """Look up a name; NotFound unless the attempt that has published it runs."""
    check_name(name)
    found = await endpoints.read_endpoints(tx, [name], count_max=1)
    if not found:
        raise NotFound("endpoint", name)
    return found[0]


async def list_endpoints(
    tx: Transaction, prefix: str = "", *, after: str = "", page_size: int
) -> Page[Published, str]:
    """List by name what begins with a prefix; a short page is not always the last one."""
    check_text("name", prefix, NAME_LENGTH_MAX)

    async def walk(after: str, count_max: int) -> list[str]:
        return await endpoints.walk_endpoints(tx, after=after, prefix=prefix, count_max=count_max)

    async def read(names: list[str], count_max: int) -> list[Published]:
        return await endpoints.read_endpoints(tx, names, count_max=count_max)

    return await fill_page(walk, read, lambda row: row.name, after=after, page_size=page_size)


def check_name(name: str) -> None:
    """Refuse what no endpoint can be called."""
    check_text("name", name, NAME_LENGTH_MAX)
    if not _NAME.fullmatch(name):
        raise Invalid("name", f"{name!r} is not an endpoint's name; use letters, digits and ._:/-")


async def _take_name(tx: Transaction, fence: Fence, name: str) -> None:
    """Lock the name; of one task, the attempt whose lease lives is the latest."""
    holder = await endpoints.lock_endpoint(tx, fence, name)
    if holder.task_id != fence.task_id and await has_live_lease(tx, holder):
        attempt = AttemptId(*holder.task_id, holder.attempt)
        raise IllegalMove(f"endpoint {name}", f"held by attempt {attempt}, which runs", "publish")


async def _check_count(tx: Transaction, fence: Fence, name: str) -> None:
    count = await endpoints.count_endpoints(tx, fence, besides=name)
    if count >= ENDPOINTS_MAX:
        raise TooLarge("name", count + 1, ENDPOINTS_MAX, unit="endpoints")
