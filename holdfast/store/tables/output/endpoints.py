"""The table of endpoints: addresses that running attempts publish under a name."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import fence_values

_ENDPOINTS = load_statements("output/endpoints")


class Published(NamedTuple):
    """An address, the attempt behind it, and what that says of it, a JSON text."""

    name: str
    address: str
    job_id: int
    task_index: int
    attempt: int
    registered_at: datetime
    metadata: str | None


async def hold_publisher(tx: Transaction, fence: Fence) -> bool:
    """Hold the lease of an attempt, so that it neither ends nor publishes beside this."""
    return await tx.fetch_one(_ENDPOINTS["hold_publisher"], **fence_values(fence)) is not None


async def count_endpoints(tx: Transaction, fence: Fence, *, besides: str) -> int:
    """Count what an attempt has published, without the name given."""
    row = await tx.fetch_one(_ENDPOINTS["count_endpoints"], **fence_values(fence), name=besides)
    assert row is not None, "a count has a row"
    count: int = row[0]
    return count


async def lock_endpoint(tx: Transaction, fence: Fence, name: str) -> Fence:
    """Lock a name, taking it if nobody has it; returns who has it."""
    row = await tx.fetch_one(_ENDPOINTS["lock_endpoint"], **fence_values(fence), name=name)
    assert row is not None, "a name is either new or there"
    return Fence(TaskId(row[0], row[1]), row[2], row[3])


async def put_endpoint(
    tx: Transaction, fence: Fence, name: str, *, address: str, metadata: str | None
) -> Published:
    """Publish an address under a name that is locked."""
    row = await tx.fetch_one(
        _ENDPOINTS["put_endpoint"],
        **fence_values(fence),
        name=name,
        address=address,
        metadata=metadata,
    )
    assert row is not None, "a name that is locked is there"
    return Published._make(row)


async def remove_endpoint(tx: Transaction, fence: Fence, name: str) -> bool:
    """Take back what an attempt has published; False if it has nothing of that name."""
    row = await tx.fetch_one(_ENDPOINTS["remove_endpoint"], **fence_values(fence), name=name)
    return row is not None


async def walk_endpoints(tx: Transaction, *, after: str, prefix: str, count_max: int) -> list[str]:
    """List names that begin with a prefix, whether their attempts still run or not."""
    rows = await tx.fetch(
        _ENDPOINTS["walk_endpoints"], after=after, prefix=prefix, count_max=count_max
    )
    return [row[0] for row in rows]


async def read_endpoints(
    tx: Transaction, names: Sequence[str], *, count_max: int
) -> list[Published]:
    """Read what is published under names by attempts that run."""
    rows = await tx.fetch(_ENDPOINTS["read_endpoints"], names=names, count_max=count_max)
    return list(map(Published._make, rows))


async def prune_endpoints(tx: Transaction, batch_max: int) -> int:
    """Forget what attempts had published that have ended; returns how many."""
    return len(await tx.fetch(_ENDPOINTS["prune_endpoints"], batch_max=batch_max))
