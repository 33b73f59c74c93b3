"""What is held of limits and waits for them, from the leases and the gates alone."""

from datetime import timedelta

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.store.database import Database
from holdfast.store.reads.limits import usage_limits
from holdfast.store.reads.limits.usage_limits import count_use, list_buckets, list_holders
from holdfast.store.tables.limits.usage_limits import find_limit
from tests.usage_limits import add_bucket, gate, hold, set_limit
from tests.world import World

WINDOW = UsageLimit(scope="key", kind="window", most=10, period=60)


async def test_an_attempt_holds_slots_of_several_buckets(world: World, database: Database) -> None:
    one = await set_limit(world, "one")
    two, three = await add_bucket(world, "one", "r"), await set_limit(world, "two")
    await hold(world, one, count=2, slots=2)
    await world.clock.fetch(
        "update holdfast.leases set held = held || array[$1, $2]::bigint[]", two, three
    )
    await gate(world, two, count=2)
    async with database.transaction() as tx:
        limits = [await find_limit(tx, name) for name in ("one", "two")]
        ids = [limit.limit_id for limit in limits if limit is not None]
        use = await count_use(tx, ids)
        holders = await list_holders(tx, [one, two, three], holders_max=1)
    assert [use[limit_id][1:] for limit_id in ids] == [(2, 2, 8, 0, 2), (1, 1, 4, 0, 0)]
    assert [len(holders[bucket]) for bucket in (one, two, three)] == [1, 1, 1]


async def test_what_is_gated_is_counted_so_far(world: World, database: Database) -> None:
    bucket = await set_limit(world)
    await gate(world, bucket, count=usage_limits.GATED_COUNTED_MAX + 1)
    async with database.transaction() as tx:
        stored = await find_limit(tx, "mail")
        assert stored is not None
        use = await count_use(tx, [stored.limit_id])
    assert use[stored.limit_id].gated == usage_limits.GATED_COUNTED_MAX


async def test_a_window_counts_what_was_spent_within_its_period(
    world: World, database: Database
) -> None:
    bucket = await set_limit(world, "rate", WINDOW)
    async with database.transaction() as tx:
        now = await tx.now()
        stored = await find_limit(tx, "rate")
        assert stored is not None
    for seconds, spent in ((70, 5.0), (50, 2.0), (1, 1.0)):
        await world.clock.fetch(
            "insert into holdfast.limit_spent (bucket_id, slice, spent) values ($1, $2, $3)",
            bucket,
            now - timedelta(seconds=seconds),
            spent,
        )
    async with database.transaction() as tx:
        [row] = await list_buckets(tx, stored, now=now, after="", value=None, count_max=9)
    assert (row.spent, row.oldest) == (3.0, now - timedelta(seconds=50))
