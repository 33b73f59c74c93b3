"""What becomes of the leases of a worker that is gone, or counts as gone."""

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.ids import TaskId
from holdfast.model.outcomes import WorkerFailed
from holdfast.operations.ending.endings import apply_endings, lock_leases, lock_tasks
from holdfast.operations.ending.gangs import Notice, decide_endings, widen
from holdfast.operations.ending.outages import read_outage
from holdfast.operations.ending.release import release
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_LEASES = load_statements("leases")
BATCH_MAX = 500
ROUNDS_MAX = 10_000


async def lose_worker(ledger: Ledger, worker_id: str, cause: str) -> int:
    """End the attempts of a worker that counts as dead; they are released when their leases end.

    Its processes may still run: nothing starts elsewhere before they are known to be gone.
    """
    return await _end_all(ledger, worker_id, f"worker lost: {cause}", is_gone=False)


async def end_gone_worker(ledger: Ledger, worker_id: str) -> int:
    """End and release the attempts of a worker that is gone with all of its processes."""
    return await _end_all(ledger, worker_id, "worker replaced after it was gone", is_gone=True)


async def _end_all(ledger: Ledger, worker_id: str, cause: str, *, is_gone: bool) -> int:
    ended = 0
    for _ in range(ROUNDS_MAX):
        count = await ledger.write(_end_some, worker_id, cause=cause, is_gone=is_gone)
        ended += count
        if count < BATCH_MAX:
            break
    return ended


async def _end_some(
    ledger: Ledger, tx: Transaction, worker_id: str, *, cause: str, is_gone: bool
) -> int:
    rows = await tx.fetch(
        _LEASES["list_leases_of_worker"],
        worker_id=worker_id,
        also_ending=is_gone,
        batch_max=BATCH_MAX,
    )
    task_ids = [TaskId(*row) for row in rows]
    if not task_ids:
        return 0
    touched = await widen(ledger, tx, task_ids)
    tasks = await lock_tasks(tx, touched)
    leases = await lock_leases(tx, touched)
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in touched})
    moves = Moves()
    is_free = await read_outage(tx)
    notices: dict[TaskId, Notice] = {}
    gone: list[TaskId] = []
    for task_id, lease in leases.items():
        if lease.worker_id != worker_id:
            continue
        if lease.ending:
            gone.append(task_id)
        else:
            loss = WorkerFailed(
                cause, free=is_free(lease.expires_at), acknowledged=lease.acknowledged
            )
            notices[task_id] = Notice(loss, released=is_gone)
    endings = decide_endings(specs, tasks, leases, notices=notices)
    await apply_endings(tx, moves, endings)
    if is_gone:
        await release(tx, gone)
    await apply_moves(tx, moves)
    return len(task_ids)
