"""The second step of an end: the process is gone, so the next attempt may start."""

from collections.abc import Sequence

from holdfast.model.ids import TaskId
from holdfast.operations.ending.endings import id_columns, promote
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_LEASES = load_statements("leases")


async def release(tx: Transaction, task_ids: Sequence[TaskId]) -> None:
    """Give up ending leases of locked tasks; what waited for that alone is ready at once."""
    if not task_ids:
        return
    ordered = id_columns(sorted(task_ids))
    rows = await tx.fetch(_LEASES["release_leases"], **ordered)
    assert len(rows) == len(task_ids), "a lease was released without an ended attempt"
    await promote(tx, sorted(task_ids))
