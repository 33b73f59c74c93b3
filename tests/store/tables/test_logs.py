"""The table of logs through its functions."""

from uuid import uuid4

from holdfast.store.database import Transaction
from holdfast.store.tables.logs import (
    StoredStretch,
    Stretch,
    append_logs,
    read_log,
)
from tests.world import World, fence_of


async def test_output_is_stored_for_whoever_holds_the_lease(world: World, tx: Transaction) -> None:
    await world.submit()
    [mine] = await world.claim()
    fence = fence_of(mine)
    stretches = [
        (fence, 0, b"one "),
        (fence, 4, b"two"),
        (fence._replace(lease_token=uuid4()), 7, b"stranger"),
    ]
    assert await append_logs(tx, stretches) == {
        StoredStretch(*mine.task_id, 0, 0),
        StoredStretch(*mine.task_id, 0, 4),
    }
    [stored] = await read_log(tx, mine.task_id, 0, start_offset=5, batch_max=9)
    assert stored == Stretch(4, b"two", stored.stored_at)
    assert stored.stored_at <= await tx.now()
