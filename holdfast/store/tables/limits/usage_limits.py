"""The table of limits of use, and what is gated behind one that is no more."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.model.limits.usage_limits import StoredLimit, UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_LIMITS = load_statements("limits/usage_limits")


async def lock_limits(tx: Transaction) -> None:
    """Change limits alone: nobody decides by them until the end of the transaction."""
    await tx.fetch(_LIMITS["lock_limits"])


async def find_limit(tx: Transaction, name: str) -> StoredLimit | None:
    """Find a limit by its name."""
    row = await tx.fetch_one(_LIMITS["find_limit"], name=name)
    return None if row is None else _read(row)


async def list_limits(tx: Transaction, *, after: str, batch_max: int) -> list[StoredLimit]:
    """List limits by name."""
    rows = await tx.fetch(_LIMITS["list_limits"], after=after, batch_max=batch_max)
    return list(map(_read, rows))


async def store_limit(tx: Transaction, name: str, limit: UsageLimit, *, actor: str) -> StoredLimit:
    """Store a limit in the place of the last one of its name."""
    row = await tx.fetch_one(
        _LIMITS["store_limit"],
        name=name,
        scope=limit.scope,
        only_for=limit.only_for,
        in_queue=limit.in_queue,
        in_type=limit.in_type,
        kind=limit.kind,
        most=limit.most,
        period=None if limit.period is None else timedelta(seconds=limit.period),
        burst=limit.burst,
        actor=actor,
    )
    assert row is not None, "a limit was stored"
    # As it is read back: an actor whom the server knows is more than his name.
    return StoredLimit(row[0], name, limit, row[1], str(actor))


async def recount_slots(tx: Transaction, limit_id: int) -> None:
    """Let what runs hold slots of a limit that came later, or that is about others now."""
    await tx.fetch(_LIMITS["recount_slots"], limit_id=limit_id)


async def delete_limit(tx: Transaction, limit_id: int) -> None:
    """Delete a limit with its buckets; what runs holds no slots of it any more."""
    await tx.fetch(_LIMITS["release_slots"], limit_id=limit_id)
    await tx.fetch(_LIMITS["delete_limit"], limit_id=limit_id)


async def forget_buckets(tx: Transaction, limit_id: int) -> None:
    """Let a limit begin anew: nobody holds slots of it, and it has met nothing yet."""
    await tx.fetch(_LIMITS["release_slots"], limit_id=limit_id)
    await tx.fetch(_LIMITS["forget_buckets"], limit_id=limit_id)


class GatedBucket(NamedTuple):
    """A bucket that something is gated behind; it may be no more."""

    bucket_id: int
    is_gone: bool


async def list_gated_buckets(tx: Transaction, *, after: int, buckets_max: int) -> list[GatedBucket]:
    """List the next buckets that something is gated behind, by id."""
    rows = await tx.fetch(_LIMITS["list_gated_buckets"], after=after, buckets_max=buckets_max)
    return [GatedBucket(*row) for row in rows]


async def open_forgotten(
    tx: Transaction, bucket_ids: Sequence[int], *, batch_max: int
) -> list[tuple[TaskId, str]]:
    """Put tasks back in line whose bucket is no more; returns which, and in which queue."""
    rows = await tx.fetch(
        _LIMITS["open_forgotten"], bucket_ids=list(bucket_ids), batch_max=batch_max
    )
    return [(TaskId(job_id, task_index), queue) for queue, job_id, task_index in rows]


def _read(row: Any) -> StoredLimit:
    limit_id, name, scope, kind, most, period, burst, only_for, in_queue, in_type, at, by = row
    limit = UsageLimit(
        scope=scope,
        kind=kind,
        most=most,
        period=period,
        burst=burst,
        only_for=only_for,
        in_queue=in_queue,
        in_type=in_type,
    )
    return StoredLimit(limit_id, name, limit, at, by)


class Bucket(NamedTuple):
    """The bucket of a value, held: its tokens as they were last written."""

    bucket_id: int
    tokens: float | None
    filled_at: datetime | None


async def share_limits(tx: Transaction) -> None:
    """Decide by limits: nobody changes one until the end of the transaction."""
    await tx.fetch(_LIMITS["share_limits"])


async def hold_bucket(tx: Transaction, limit_id: int, value: str) -> Bucket:
    """Hold the bucket of a value, and make it if it is the first time that it is asked for."""
    row = await tx.fetch_one(_LIMITS["hold_bucket"], limit_id=limit_id, value=value)
    if row is None:
        await tx.fetch(_LIMITS["add_bucket"], limit_id=limit_id, value=value)
        row = await tx.fetch_one(_LIMITS["hold_bucket"], limit_id=limit_id, value=value)
    assert row is not None, "a bucket is there once it was made"
    return Bucket(*row)


async def fill_bucket(tx: Transaction, bucket_id: int, tokens: float, *, now: datetime) -> None:
    """Write down what is in a token bucket."""
    await tx.fetch(_LIMITS["fill_bucket"], bucket_id=bucket_id, tokens=tokens, now=now)


async def list_slices(
    tx: Transaction, bucket_id: int, *, window_seconds: float, now: datetime
) -> list[tuple[datetime, float]]:
    """List what was and will be started in a window, by slices; what is over is dropped."""
    rows = await tx.fetch(
        _LIMITS["list_slices"], bucket_id=bucket_id, window_seconds=window_seconds, now=now
    )
    return [(row[0], row[1]) for row in rows]


async def spend_at(
    tx: Transaction, bucket_id: int, spent: float, *, at: datetime, slice_seconds: float
) -> None:
    """Write down what starts at a time."""
    await tx.fetch(
        _LIMITS["spend_at"], bucket_id=bucket_id, spent=spent, at=at, slice_seconds=slice_seconds
    )
