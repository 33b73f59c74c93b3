"""What is kept for owners is counted range by range."""

from collections import Counter

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.stored_bytes import StoredBytes
from tests.world import World


async def test_what_has_come_is_added_until_it_is_counted(world: World, ledger: Ledger) -> None:
    stored = StoredBytes(ledger.database)
    await world.submit(owner="ann")
    stored.add(Counter({"ann": 1_000_000}))
    assert stored.of("ann") == stored.largest() == 1_000_000
    await stored.count()
    assert 0 < stored.of("ann") < 1_000_000
    assert stored.of("bob") == 0
