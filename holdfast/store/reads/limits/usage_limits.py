"""Limits of use as people see them: what is held of each, by whom, and what waits for it."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.model.limits.usage_limits import WINDOW_MARGIN, StoredLimit
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_LIMITS = load_statements("reads/limits/usage_limits")
# So far buckets are counted, and so far what is gated behind each of them.
BUCKETS_COUNTED_MAX = 1000
GATED_COUNTED_MAX = 1000
HOLDERS_MAX = 20


class LimitUse(NamedTuple):
    """What is met, held and gated of a limit; `surplus` slots are held beyond what it allows."""

    limit_id: int
    buckets: int = 0
    buckets_held: int = 0
    held: int = 0
    surplus: int = 0
    gated: int = 0


class BucketRow(NamedTuple):
    """One bucket: its tokens as they were last written, what is held, spent and gated."""

    bucket_id: int
    value: str
    tokens: float | None
    filled_at: datetime | None
    held: int
    spent: float
    oldest: datetime | None
    gated: int


class HolderRow(NamedTuple):
    """An attempt that holds slots of a bucket."""

    bucket_id: int
    job_id: int
    task_index: int
    attempt: int
    worker_id: str
    created_at: datetime
    slots: int


async def count_use(tx: Transaction, limit_ids: Sequence[int]) -> dict[int, LimitUse]:
    """Count what is held and gated of limits."""
    rows = await tx.fetch(
        _LIMITS["count_use"],
        limit_ids=list(limit_ids),
        buckets_max=BUCKETS_COUNTED_MAX,
        count_max=GATED_COUNTED_MAX,
    )
    return {row[0]: LimitUse(*row) for row in rows}


async def list_buckets(
    tx: Transaction,
    stored: StoredLimit,
    *,
    now: datetime,
    after: str,
    value: str | None,
    count_max: int,
) -> list[BucketRow]:
    """List the buckets of a limit by value, or the one of a value."""
    rows = await tx.fetch(
        _LIMITS["list_buckets"],
        limit_id=stored.limit_id,
        window_seconds=(stored.limit.period or 0.0) * WINDOW_MARGIN,
        now=now,
        after=after,
        value=value,
        buckets_max=count_max,
        count_max=GATED_COUNTED_MAX,
    )
    return [BucketRow(*row) for row in rows]


async def list_holders(
    tx: Transaction, bucket_ids: Sequence[int], *, holders_max: int = HOLDERS_MAX
) -> dict[int, list[HolderRow]]:
    """List those who hold slots of buckets, of each some, the oldest first."""
    found: dict[int, list[HolderRow]] = {}
    rows = await tx.fetch(
        _LIMITS["list_holders"], bucket_ids=list(bucket_ids), holders_max=holders_max
    )
    for row in rows:
        found.setdefault(row[0], []).append(HolderRow(*row))
    return found
