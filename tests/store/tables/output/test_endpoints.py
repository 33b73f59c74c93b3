"""The table of endpoints through its functions."""

from uuid import uuid4

from holdfast.store.database import Transaction
from holdfast.store.tables.output.endpoints import (
    count_endpoints,
    hold_publisher,
    lock_endpoint,
    prune_endpoints,
    put_endpoint,
    read_endpoints,
    remove_endpoint,
    walk_endpoints,
)
from tests.world import World, fence_of


async def test_a_name_is_locked_published_and_taken_back(world: World, tx: Transaction) -> None:
    await world.submit([1, 2])
    mine, other = map(fence_of, await world.claim(2))
    assert await hold_publisher(tx, mine)
    assert not await hold_publisher(tx, mine._replace(lease_token=uuid4()))
    assert await lock_endpoint(tx, mine, "a/b") == mine
    assert await lock_endpoint(tx, other, "a/b") == mine
    put = await put_endpoint(tx, mine, "a/b", address="h:1", metadata="[1]")
    assert (put.name, put.address, put.metadata) == ("a/b", "h:1", "[1]")
    assert await count_endpoints(tx, mine, besides="none") == 1
    assert await count_endpoints(tx, mine, besides="a/b") == 0
    assert await walk_endpoints(tx, after="", prefix="a", count_max=9) == ["a/b"]
    assert await read_endpoints(tx, ["a/b", "none"], count_max=9) == [put]
    assert await prune_endpoints(tx, 9) == 0
    assert not await remove_endpoint(tx, other, "a/b")
    assert await remove_endpoint(tx, mine, "a/b")
