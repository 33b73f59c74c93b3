"""A running attempt acts for its own job: what it submits becomes a child of that."""

from holdfast.errors import LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.operations.report import Fence, check_fence
from holdfast.store.statements import load_statements

_LEASES = load_statements("leases")


async def get_parent(ledger: Ledger, fence: Fence) -> int:
    """Give the job that an attempt may submit children of; raises LeaseConflict if it may not.

    Whether that job still takes children is checked again when the child is stored.
    """
    check_fence(fence)
    async with ledger.database.transaction() as tx:
        held = await tx.fetch_one(
            _LEASES["find_live_lease"],
            job_id=fence.task_id.job_id,
            task_index=fence.task_id.task_index,
            attempt=fence.attempt,
            token=fence.lease_token,
        )
    if held is None:
        raise LeaseConflict(fence.task_id, "the lease is lost; it can submit nothing any more")
    return fence.task_id.job_id
