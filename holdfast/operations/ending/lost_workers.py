"""What becomes of the leases of a worker that is gone, or counts as gone."""

from functools import partial
from typing import NamedTuple

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.ledger.parts import Failure, by_job, jobs_of, raise_broken, write_in_parts
from holdfast.model.submitting.spec import TaskTerms
from holdfast.model.work.attempts import LockedLease
from holdfast.model.work.ids import TaskId
from holdfast.operations.ending.attempts import end_attempts
from holdfast.operations.ending.reap import read_outage
from holdfast.rules.ending import Judged, end_lost
from holdfast.store.database import Transaction
from holdfast.store.tables.work.leases import list_leases_of_worker

BATCH_MAX = 500
ROUNDS_MAX = 10_000


async def lose_worker(ledger: Ledger, worker_id: str, cause: str) -> int:
    """End the attempts of a worker that counts as dead; they are released when their leases end.

    Its processes may still run: nothing starts elsewhere before they are known to be gone.
    """
    return await _end_all(ledger, worker_id, _Loss(f"worker lost: {cause}", is_gone=False))


async def end_gone_worker(ledger: Ledger, worker_id: str, crash: str | None = None) -> int:
    """End and release the attempts of a worker that is gone with all of its processes.

    `crash` says how its process ended, if not by its own will.
    """
    cause = "worker replaced after it was gone" if crash is None else f"worker crashed: {crash}"
    loss = _Loss(cause, is_gone=True, has_crashed=crash is not None)
    return await _end_all(ledger, worker_id, loss)


class _Loss(NamedTuple):
    """How a worker was lost."""

    cause: str
    is_gone: bool
    has_crashed: bool = False


async def _end_all(ledger: Ledger, worker_id: str, loss: _Loss) -> int:
    """End all there is, but for what somebody holds: that is left to the reaper."""
    write = partial(ledger.write, _end_some, worker_id=worker_id, loss=loss)
    ended = 0
    left: list[Failure[TaskId]] = []
    for _ in range(ROUNDS_MAX):
        async with ledger.database.transaction() as tx:
            chosen = await list_leases_of_worker(
                tx,
                worker_id=worker_id,
                also_ending=loss.is_gone,
                except_jobs=jobs_of(left),
                batch_max=BATCH_MAX,
            )
        answers, failures = await write_in_parts(write, by_job(chosen))
        ended += sum(answers)
        left += failures
        if len(chosen) < BATCH_MAX:
            break
    raise_broken(left)
    return ended


async def _end_some(
    ledger: Ledger,
    tx: Transaction,
    task_ids: list[TaskId],
    *,
    worker_id: str,
    loss: _Loss,
) -> int:
    outage = await read_outage(tx)

    def judge(lease: LockedLease, _: TaskTerms) -> Judged:
        if lease.worker_id != worker_id:
            return None
        return end_lost(lease, **loss._asdict(), outage=outage)

    moves = Moves()
    await end_attempts(ledger, tx, task_ids, judge=judge, moves=moves)
    await apply_moves(tx, moves)
    return len(task_ids)
