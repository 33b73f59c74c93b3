"""The table of jobs whose tasks end if nobody has started them by a time."""

from collections.abc import Mapping, Sequence

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_EXPIRIES = load_statements("submitting/expiries")


async def list_unstarted(
    tx: Transaction, *, except_jobs: Sequence[int], batch_max: int
) -> list[TaskId]:
    """List tasks that nobody has started in time; those of one job are its next ones, in order."""
    rows = await tx.fetch(_EXPIRIES["list_unstarted"], except_jobs=except_jobs, batch_max=batch_max)
    return [TaskId(*row) for row in rows]


async def advance_expiries(tx: Transaction, next_indexes: Mapping[int, int]) -> None:
    """Note from which task on those of each job are still to be looked at."""
    job_ids = sorted(next_indexes)
    await tx.fetch(
        _EXPIRIES["advance_expiries"],
        job_ids=job_ids,
        next_indexes=[next_indexes[job_id] for job_id in job_ids],
    )


async def delete_expiries(tx: Transaction, *, batch_max: int) -> int:
    """Forget jobs whose time has come and of which nothing is left to expire; counts them."""
    return len(await tx.fetch(_EXPIRIES["delete_expiries"], batch_max=batch_max))
