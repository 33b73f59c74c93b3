"""Addresses that running attempts publish under a name.

A name is held as long as the lease of its attempt lives. From then on it is not found any more, and
whoever comes next may have it; the attempt that had it cannot take it back.
"""

import re
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.errors import IllegalMove, Invalid, LeaseConflict, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import AttemptId, TaskId
from holdfast.operations.report import Fence, check_fence
from holdfast.rules.submission import NAME_LENGTH_MAX, check_json, check_text
from holdfast.store.database import Transaction
from holdfast.store.pages import Page, fill_page
from holdfast.store.statements import load_statements

_ENDPOINTS = load_statements("endpoints")
_LEASES = load_statements("leases")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
ADDRESS_LENGTH_MAX = 1024
METADATA_BYTES_MAX = 4096
ENDPOINTS_MAX = 100


class Published(NamedTuple):
    """An address, the attempt behind it, and what that says of it, a JSON text."""

    name: str
    address: str
    job_id: int
    task_index: int
    attempt: int
    registered_at: datetime
    metadata: str | None


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
    mine = _columns(fence)
    async with ledger.database.transaction() as tx:
        if await tx.fetch_one(_ENDPOINTS["hold_publisher"], **mine) is None:
            raise LeaseConflict(fence.task_id, "the lease is lost; it can publish nothing any more")
        await _check_count(tx, fence, name)
        await _take_name(tx, fence, name)
        row = await tx.fetch_one(
            _ENDPOINTS["put_endpoint"], **mine, name=name, address=address, metadata=metadata
        )
    return Published(*row)  # type: ignore[misc]


async def remove_endpoint(ledger: Ledger, fence: Fence, name: str) -> bool:
    """Take back what this attempt has published; False if it has nothing of that name."""
    check_fence(fence)
    check_name(name)
    async with ledger.database.transaction() as tx:
        if not await _is_live(tx, fence):
            raise LeaseConflict(fence.task_id, "the lease is lost; its endpoints are gone with it")
        removed = await tx.fetch_one(_ENDPOINTS["remove_endpoint"], **_columns(fence), name=name)
    return removed is not None


async def get_endpoint(tx: Transaction, name: str) -> Published:
    """Look up a name; NotFound unless the attempt that has published it runs."""
    check_name(name)
    rows = await _read(tx, [name], count_max=1)
    if not rows:
        raise NotFound("endpoint", name)
    return rows[0]


async def list_endpoints(
    tx: Transaction, prefix: str = "", *, after: str = "", page_size: int
) -> Page[Published, str]:
    """List by name what begins with a prefix; a short page is not always the last one."""
    check_text("name", prefix, NAME_LENGTH_MAX)

    async def walk(after: str, count_max: int) -> list[str]:
        rows = await tx.fetch(
            _ENDPOINTS["walk_endpoints"], after=after, prefix=prefix, count_max=count_max
        )
        return [row[0] for row in rows]

    async def read(names: list[str], count_max: int) -> list[Published]:
        return await _read(tx, names, count_max=count_max)

    return await fill_page(walk, read, lambda row: row.name, after=after, page_size=page_size)


def check_name(name: str) -> None:
    """Refuse what no endpoint can be called."""
    check_text("name", name, NAME_LENGTH_MAX)
    if not _NAME.fullmatch(name):
        raise Invalid("name", f"{name!r} is not an endpoint's name; use letters, digits and ._:/-")


async def _take_name(tx: Transaction, fence: Fence, name: str) -> None:
    """Lock the name; of one task, the attempt whose lease lives is the latest."""
    row = await tx.fetch_one(_ENDPOINTS["lock_endpoint"], **_columns(fence), name=name)
    assert row is not None, "a name is either new or there"
    holder = Fence(TaskId(row[0], row[1]), row[2], row[3])
    if holder.task_id != fence.task_id and await _is_live(tx, holder):
        attempt = AttemptId(*holder.task_id, holder.attempt)
        raise IllegalMove(f"endpoint {name}", f"held by attempt {attempt}, which runs", "publish")


async def _check_count(tx: Transaction, fence: Fence, name: str) -> None:
    row = await tx.fetch_one(_ENDPOINTS["count_endpoints"], **_columns(fence), name=name)
    assert row is not None, "a count has a row"
    if row[0] >= ENDPOINTS_MAX:
        raise TooLarge("name", row[0] + 1, ENDPOINTS_MAX, unit="endpoints")


async def _is_live(tx: Transaction, fence: Fence) -> bool:
    return await tx.fetch_one(_LEASES["find_live_lease"], **_columns(fence)) is not None


async def _read(tx: Transaction, names: list[str], *, count_max: int) -> list[Published]:
    rows = await tx.fetch(_ENDPOINTS["read_endpoints"], names=names, count_max=count_max)
    return [Published(*row) for row in rows]


def _columns(fence: Fence) -> dict[str, Any]:
    return {
        "job_id": fence.task_id.job_id,
        "task_index": fence.task_id.task_index,
        "attempt": fence.attempt,
        "token": fence.lease_token,
    }
