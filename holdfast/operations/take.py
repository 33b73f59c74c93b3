"""Take tasks out of line for claims: the first ones, or where tasks name resources, what fits."""

from collections.abc import Sequence

from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.resources import Resources
from holdfast.model.states import TaskState
from holdfast.rules.claim_shares import Asked, share_line
from holdfast.store.database import Transaction
from holdfast.store.tables.ready import TakenTask, read_line, take_ready, take_ready_by_id

# How far a claim looks for tasks that fit.
LINE_MAX = 1000
# What each claim gets, and whether stale tasks may have stood in the way of more.
Taken = tuple[list[list[TakenTask]], bool]


async def take_first(tx: Transaction, queues: Sequence[str], asked: Sequence[Asked]) -> Taken:
    """Take the first tasks of the line."""
    tasks = await take_ready(tx, queues, sum(claim.tasks_max for claim in asked))
    fresh = [task for task in tasks if is_fresh(task)]
    is_blocked = len(fresh) < len(tasks)
    fresh.sort(key=lambda task: (task.urgency, task.eligible_at, task.job_id, task.task_index))
    shares: list[list[TakenTask]] = []
    for claim in asked:
        share, fresh = fresh[: claim.tasks_max], fresh[claim.tasks_max :]
        shares.append(share)
    return shares, is_blocked


async def take_fitting(
    ledger: Ledger, tx: Transaction, queues: Sequence[str], *, asked: Sequence[Asked]
) -> Taken:
    """Look at the line, and take what fits; some of it may be gone by then."""
    found = await read_line(tx, queues, LINE_MAX)
    line = [TaskId(task.job_id, task.task_index) for task in found if not task.is_stale]
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in line})
    needs = [specs[task_id.job_id].spec.resources for task_id in line]
    if not any(needs):
        ledger.sized_queues.difference_update(queues)
    owners = zip(line, share_line(needs, asked), strict=True)
    chosen = {task_id: owner for task_id, owner in owners if owner is not None}
    tasks = await take_ready_by_id(tx, sorted(chosen)) if chosen else []
    fresh = {TaskId(task.job_id, task.task_index): task for task in tasks if is_fresh(task)}
    shares: list[list[TakenTask]] = [[] for _ in asked]
    for task_id, owner in chosen.items():
        if task_id in fresh:
            shares[owner].append(fresh[task_id])
    return shares, len(fresh) < len(chosen) or len(line) < len(found)


async def find_needs(
    ledger: Ledger, tx: Transaction, task_ids: set[TaskId]
) -> dict[TaskId, Resources]:
    """Find what those of these tasks need that name resources."""
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in task_ids})
    needs = {job_id: stored.spec.resources for job_id, stored in specs.items()}
    return {
        task_id: need for task_id in task_ids if (need := needs.get(task_id.job_id)) is not None
    }


def is_fresh(task: TakenTask) -> bool:
    """Tell whether a task that was in line may be leased."""
    return task.state == TaskState.PENDING and task.job_is_live
