"""A running attempt acts for its own job: what it submits becomes a child of that."""

from holdfast.errors import LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence, check_fence
from holdfast.store.tables.work.leases import has_live_lease


async def get_parent(ledger: Ledger, fence: Fence) -> int:
    """Give the job that an attempt may submit children of; raises LeaseConflict if it may not.

    Whether that job still takes children is checked again when the child is stored.
    """
    check_fence(fence)
    async with ledger.database.transaction() as tx:
        is_held = await has_live_lease(tx, fence)
    if not is_held:
        raise LeaseConflict(fence.task_id, "the lease is lost; it can submit nothing any more")
    return fence.task_id.job_id
