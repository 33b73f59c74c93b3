"""The table of limits through its functions."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.store.database import Database, LockTimeout, Transaction
from holdfast.store.tables.limits.usage_limits import (
    delete_limit,
    fill_bucket,
    find_limit,
    hold_bucket,
    list_gated_buckets,
    list_limits,
    list_slices,
    lock_limits,
    open_forgotten,
    share_limits,
    spend_at,
    store_limit,
)
from tests.usage_limits import FIVE

RATE = UsageLimit(
    scope="key",
    kind="bucket",
    most=2.5,
    period=0.25,
    burst=3.0,
    only_for="ann",
    in_queue="q",
    in_type="t",
)


async def test_a_limit_is_stored_found_and_deleted(tx: Transaction) -> None:
    stored = await store_limit(tx, "rate", RATE, actor="ann")
    assert (stored.limit, stored.updated_by) == (RATE, "ann")
    assert await find_limit(tx, "rate") == stored
    other = await store_limit(tx, "Big", FIVE, actor="ann")
    assert await list_limits(tx, after="", batch_max=9) == [other, stored]
    assert await list_limits(tx, after="Big", batch_max=9) == [stored]
    two = msgspec.structs.replace(FIVE, most=2.0, only_for="q")
    changed = await store_limit(tx, "Big", two, actor="bob")
    assert await find_limit(tx, "Big") == changed
    assert (changed.limit_id, changed.updated_by) == (other.limit_id, "bob")
    await delete_limit(tx, stored.limit_id)
    assert await find_limit(tx, "rate") is None
    assert await list_gated_buckets(tx, after=0, buckets_max=9) == []
    assert await open_forgotten(tx, [stored.limit_id], batch_max=9) == []


async def test_who_changes_limits_does_so_alone(database: Database) -> None:
    async with database.transaction() as one:
        await lock_limits(one)
        with pytest.raises(LockTimeout):
            async with database.transaction() as other:
                await lock_limits(other)


async def test_a_bucket_is_made_once_and_keeps_what_is_written(tx: Transaction) -> None:
    await share_limits(tx)
    stored = await store_limit(tx, "rate", RATE, actor="ann")
    bucket = await hold_bucket(tx, stored.limit_id, "k")
    assert (bucket.tokens, bucket.filled_at) == (None, None)
    now = await tx.now()
    await fill_bucket(tx, bucket.bucket_id, 1.5, now=now)
    assert await hold_bucket(tx, stored.limit_id, "k") == (bucket.bucket_id, 1.5, now)


async def test_what_a_window_spends_is_summed_up_by_slices(tx: Transaction) -> None:
    stored = await store_limit(tx, "rate", RATE, actor="ann")
    bucket = (await hold_bucket(tx, stored.limit_id, "k")).bucket_id
    now = datetime(2027, 1, 1, tzinfo=UTC)
    for seconds in (-30, 0.1, 0.2, 15):
        at = now + timedelta(seconds=seconds)
        await spend_at(tx, bucket, 1.0, at=at, slice_seconds=1.0)
    later = now + timedelta(seconds=15)
    for window, found in ((10.0, [(later, 1.0)]), (20.0, [(now, 2.0), (later, 1.0)])):
        at = now + timedelta(seconds=1)
        listed = await list_slices(tx, bucket, window_seconds=window, now=at)
        assert sorted(listed) == found
