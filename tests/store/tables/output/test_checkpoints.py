"""The table of checkpoints through its functions."""

from uuid import uuid4

from holdfast.store.database import Transaction
from holdfast.store.tables.output.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from tests.world import World, fence_of


async def test_a_checkpoint_is_saved_and_loaded_under_the_lease(
    world: World, tx: Transaction
) -> None:
    await world.submit()
    [mine] = await world.claim()
    fence, stranger = fence_of(mine), fence_of(mine)._replace(lease_token=uuid4())
    assert await load_checkpoint(tx, fence) == Checkpoint(None, None)
    assert await save_checkpoint(tx, fence, "[1]")
    assert not await save_checkpoint(tx, stranger, "[2]")
    assert await load_checkpoint(tx, fence) == Checkpoint(0, "[1]")
    assert await load_checkpoint(tx, stranger) is None
