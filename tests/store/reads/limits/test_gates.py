"""What limits hold back, as far as it is counted."""

import msgspec
import pytest

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.operations.usage_limits.put import put_limit
from holdfast.store.database import Database
from holdfast.store.reads.limits import gates
from holdfast.store.reads.limits.gates import (
    count_gated,
    find_queue_gate,
    find_queue_gates,
    list_gates,
)
from tests.usage_limits import FIVE, gate, hold, set_limit
from tests.world import World


async def test_a_gate_is_named_with_who_is_ahead_and_who_holds(
    world: World, database: Database
) -> None:
    bucket = await set_limit(world, limit=UsageLimit(scope="key", kind="concurrency", most=2))
    held = await hold(world, bucket, count=2)
    first = await gate(world, bucket, count=2)
    second = await gate(world, bucket)
    async with database.transaction() as tx:
        now = await tx.now()
        found = await list_gates(tx, second, [0, 1], now=now, counts_ahead=True)
        uncounted = await list_gates(tx, first, [0, 1], now=now)
    [mine] = found.values()
    assert (mine.name, mine.value, mine.state.held, mine.ahead) == ("mail", "q", 2, 2)
    assert mine.holders == tuple(held)
    assert [each.ahead for each in uncounted.values()] == [None, None]


async def test_a_whole_queue_is_held_back_when_its_own_limit_is_used_up(
    world: World, database: Database
) -> None:
    bucket = await set_limit(world, limit=msgspec.structs.replace(FIVE, most=1.0, only_for="q"))
    async with database.transaction() as tx:
        assert await find_queue_gate(tx, "q", now=await tx.now()) is None
    [task_id] = await hold(world, bucket)
    closed = UsageLimit(scope="queue", kind="window", most=0, period=1, only_for="r")
    await put_limit(world.ledger, "closed", closed, actor="ann")
    async with database.transaction() as tx:
        now = await tx.now()
        found = await find_queue_gate(tx, "q", now=now)
        all_found = await find_queue_gates(tx, ["q", "r", "s"], now=now)
    assert found is not None
    assert (found.name, found.holders) == ("mail", (task_id,))
    assert {queue: each.name for queue, each in all_found.items()} == {"q": "mail", "r": "closed"}


async def test_of_very_much_a_sample_is_counted(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = await set_limit(world)
    async with database.transaction() as tx:
        assert await count_gated(tx) == ({}, False)
    await gate(world, bucket, count=30)
    async with database.transaction() as tx:
        assert await count_gated(tx) == ({"q": 30}, False)
        monkeypatch.setattr(gates, "GATED_COUNTED_MAX", 10)
        assert await count_gated(tx) == ({"q": 30}, True)
