"""What an attempt leaves for the next one of its task."""

from holdfast.errors import LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence, check_fence
from holdfast.rules.submitting.submission import check_json
from holdfast.store.tables.output import checkpoints


async def save_checkpoint(ledger: Ledger, fence: Fence, text: str) -> None:
    """Keep a checkpoint in the place of the last one; only the holder of the lease may."""
    check_fence(fence)
    check_json("checkpoint", text, ledger.limits.input_bytes_max)
    async with ledger.database.transaction() as tx:
        is_saved = await checkpoints.save_checkpoint(tx, fence, text)
    if not is_saved:
        raise LeaseConflict(fence.task_id, "the lease is lost; the checkpoint is not kept")


async def load_checkpoint(ledger: Ledger, fence: Fence) -> checkpoints.Checkpoint:
    """Read what an earlier attempt has saved, or this one."""
    check_fence(fence)
    async with ledger.database.transaction() as tx:
        found = await checkpoints.load_checkpoint(tx, fence)
    if found is None:
        raise LeaseConflict(fence.task_id, "the lease is lost; stop the attempt")
    return found
