"""The chores' statements, as their callers see them."""

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.tables.limits.limits import (
    drop_idle_buckets,
    drop_stale_gated,
    follow_clock,
    tend_gated,
)
from tests.limits import set_limit
from tests.world import World


async def test_a_stretch_says_where_the_next_one_begins(world: World, tx: Transaction) -> None:
    assert await tend_gated(tx, 0, buckets_max=2) == (None, None, None, None)
    assert await drop_idle_buckets(tx, 0, buckets_max=2) is None
    await set_limit(world.clock, "types", "type", 0)
    for name in ("a", "b", "c"):
        await world.submit(type=name)
    assert await world.claim(10) == []
    buckets = await world.clock.fetch("select bucket_id from holdfast.limit_buckets order by 1")
    second = buckets[1][0]
    assert (await tend_gated(tx, 0, buckets_max=2)).last_bucket_id == second
    assert (await tend_gated(tx, second, buckets_max=2)).last_bucket_id is None
    assert await drop_idle_buckets(tx, 0, buckets_max=2) == second
    assert await follow_clock(tx, 0, buckets_max=2) == (0, second)
    assert await follow_clock(tx, second, buckets_max=2) == (0, None)


async def test_stretches_of_what_was_cancelled_follow_each_other(
    world: World, tx: Transaction
) -> None:
    await set_limit(world.clock, "types", "type", 0)
    gone, live = await world.submit([1, 2, 3]), await world.submit([4])
    assert await world.claim(10) == []
    await world.clock.fetch("update holdfast.jobs set cancel_mode = 'hard' where job_id = $1", gone)
    first = TaskId(0, -1)
    assert await drop_stale_gated(tx, first, batch_max=2) == (2, gone, 1)
    assert await drop_stale_gated(tx, TaskId(gone, 1), batch_max=2) == (1, live, 0)
    assert await drop_stale_gated(tx, TaskId(live, 0), batch_max=2) == (0, None, None)
    assert await drop_stale_gated(tx, first, batch_max=2) == (0, None, None)
