"""Read limits of use, what is held and gated of each, and the buckets of one."""

from datetime import datetime
from typing import NamedTuple

from holdfast.errors import NotFound
from holdfast.model.limits.usage_limits import StoredLimit
from holdfast.rules.limits.usage import check_limit_name
from holdfast.rules.submitting.submission import check_text
from holdfast.store.database import Database
from holdfast.store.reads.limits.usage_limits import (
    BucketRow,
    HolderRow,
    LimitUse,
    count_use,
    list_buckets,
    list_holders,
)
from holdfast.store.tables.limits import usage_limits

VALUE_MAX = 1024


class ShownLimit(NamedTuple):
    """A limit with some of its buckets, those who hold their slots, and when that was."""

    stored: StoredLimit
    use: LimitUse
    buckets: list[BucketRow]
    holders: dict[int, list[HolderRow]]
    now: datetime


async def list_limits(
    reads: Database, *, after: str = "", count_max: int = 100
) -> list[tuple[StoredLimit, LimitUse]]:
    """List limits by name, a page at a time."""
    async with reads.transaction() as tx:
        found = await usage_limits.list_limits(tx, after=after, batch_max=count_max)
        use = await count_use(tx, [stored.limit_id for stored in found]) if found else {}
    return [(stored, use[stored.limit_id]) for stored in found]


async def show_limit(
    reads: Database,
    name: str,
    *,
    after: str = "",
    value: str | None = None,
    count_max: int = 100,
) -> ShownLimit:
    """Show a limit, and its buckets by value, a page at a time; or the bucket of one value."""
    check_limit_name(name)
    check_text("value", value or "", VALUE_MAX)
    async with reads.transaction() as tx:
        stored = await usage_limits.find_limit(tx, name)
        if stored is None:
            raise NotFound("limit", name)
        now = await tx.now()
        use = await count_use(tx, [stored.limit_id])
        buckets = await list_buckets(
            tx, stored, now=now, after=after, value=value, count_max=count_max
        )
        holders = await list_holders(tx, [bucket.bucket_id for bucket in buckets])
    return ShownLimit(stored, use[stored.limit_id], buckets, holders, now)
