"""The tables of limits: their buckets, and what waits behind them."""

from typing import NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_LIMITS = load_statements("limits/limits")


class Opened(NamedTuple):
    """What stands in line again, in columns that are None instead of empty."""

    queues: list[str] | None
    job_ids: list[int] | None
    task_indexes: list[int] | None


class Tended(NamedTuple):
    """What stands in line again, in columns that are None instead of empty.

    And the last bucket of the stretch that was looked at, if there may be more.
    """

    queues: list[str] | None
    job_ids: list[int] | None
    task_indexes: list[int] | None
    last_bucket_id: int | None


async def tend_gated(tx: Transaction, after: int, *, buckets_max: int) -> Tended:
    """Let back into line what waits behind the next limits although they have room."""
    row = await tx.fetch_one(_LIMITS["tend_gated"], after=after, buckets_max=buckets_max)
    assert row is not None
    return Tended._make(row)


async def open_changed(
    tx: Transaction, limit_id: int, *, buckets_max: int, tasks_max: int
) -> Opened:
    """Let back into line what fits behind a limit that was changed, of each bucket so much."""
    row = await tx.fetch_one(
        _LIMITS["open_changed"], limit_id=limit_id, buckets_max=buckets_max, tasks_max=tasks_max
    )
    assert row is not None
    return Opened._make(row)


async def drop_idle_buckets(tx: Transaction, after: int, *, buckets_max: int) -> int | None:
    """Forget the next buckets, where nobody uses them; returns the last one, if there are more."""
    row = await tx.fetch_one(_LIMITS["drop_idle_buckets"], after=after, buckets_max=buckets_max)
    assert row is not None
    last: int | None = row[0]
    return last


class Followed(NamedTuple):
    """How many buckets of rates were ahead of the clock, and the last one of the stretch."""

    num_ahead: int
    last_bucket_id: int | None


async def follow_clock(tx: Transaction, after: int, *, buckets_max: int) -> Followed:
    """Have what rates let start later than now count as started now."""
    row = await tx.fetch_one(_LIMITS["follow_clock"], after=after, buckets_max=buckets_max)
    assert row is not None
    return Followed._make(row)


class DroppedGated(NamedTuple):
    """How many tasks went, and the last one of the stretch, if there may be more."""

    dropped: int
    job_id: int | None
    task_index: int | None


async def drop_stale_gated(tx: Transaction, after: TaskId, *, batch_max: int) -> DroppedGated:
    """Clear the next gated tasks of those that were cancelled, but for rows that are held."""
    row = await tx.fetch_one(
        _LIMITS["drop_stale_gated"],
        after_job=after.job_id,
        after_index=after.task_index,
        batch_max=batch_max,
    )
    assert row is not None
    return DroppedGated._make(row)
