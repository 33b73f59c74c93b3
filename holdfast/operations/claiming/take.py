"""Take tasks out of line for claims: the first ones, or where tasks name resources, what fits."""

import time
from collections.abc import Mapping, Sequence

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity, Resources, fits, subtract
from holdfast.operations.books import hold_balances
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.rules.placement.claim_shares import Asked, Slots, share_line
from holdfast.store.database import Transaction
from holdfast.store.specs import StoredSpec
from holdfast.store.tables.limits.shares import let_in
from holdfast.store.tables.work.ready import (
    Passed,
    Place,
    TakenTask,
    find_room,
    pass_taken,
    read_line,
    take_ready,
    take_ready_by_id,
    take_ready_from,
)

# How far a claim looks for tasks that fit.
LINE_MAX = 1000
# What each claim gets, and whether stale tasks may have stood in the way of more.
Taken = tuple[list[list[TakenTask]], bool]


async def take_first(
    ledger: Ledger, tx: Transaction, queues: Sequence[str], *, asked: Sequence[Asked]
) -> Taken:
    """Take the first tasks of the line."""
    tasks_max = sum(claim.tasks_max for claim in asked)
    await let_in(tx, queues, tasks_max=tasks_max, line_max=tasks_max)
    if ledger.positions.is_held:
        tasks = await _take_past_dead_rows(ledger, tx, queues, tasks_max=tasks_max)
    else:
        tasks = await take_ready(tx, queues, tasks_max)
    fresh = [task for task in tasks if is_fresh(task)]
    is_blocked = len(fresh) < len(tasks)
    fresh.sort(key=lambda task: (task.urgency, task.eligible_at, task.job_id, task.task_index))
    shares: list[list[TakenTask]] = []
    for claim in asked:
        share, fresh = fresh[: claim.tasks_max], fresh[claim.tasks_max :]
        shares.append(share)
    return shares, is_blocked


async def _take_past_dead_rows(
    ledger: Ledger, tx: Transaction, queues: Sequence[str], *, tasks_max: int
) -> list[TakenTask]:
    """Take the first tasks from where claims have found some, since vacuum is held up."""
    places = ledger.positions.find(queues)
    begun_at = time.monotonic()
    found = await take_ready_from(tx, places, tasks_max)
    firsts: dict[str, Place] = {}
    for each in found:
        firsts[each.queue] = min(each.place, firsts.get(each.queue, each.place))
    ledger.positions.note(places, firsts, seconds=time.monotonic() - begun_at)
    return [each.task for each in found]


async def take_fitting(
    ledger: Ledger, tx: Transaction, queues: Sequence[str], *, asked: Sequence[Asked]
) -> Taken:
    """Look at the line, and take what fits; some of it may be gone by then."""
    tasks_max = sum(claim.tasks_max for claim in asked)
    # What stands in line already may be what does not fit.
    await let_in(tx, queues, tasks_max=tasks_max, line_max=LINE_MAX)
    room = await find_room(tx, queues, LINE_MAX)
    if room.opens_in is not None:
        tx.news.openings += [(queue, room.opens_in) for queue in queues]
    # One that may start nothing is left alone: its tasks would be in the way of the others.
    queues = [queue for queue in queues if room.caps.get(queue, 1) > 0]
    found = await read_line(tx, queues, LINE_MAX)
    fresh_line = [task for task in found if not task.is_stale]
    line = [TaskId(task.job_id, task.task_index) for task in fresh_line]
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in line})
    needs = [specs[task_id.job_id].spec.resources for task_id in line]
    slots = [Slots(task.queue, specs[task.job_id].spec.slots or 1) for task in fresh_line]
    if not any(needs):
        ledger.sized_queues.difference_update(queues)
    owners = share_line(needs, asked, slots=slots, room=room.caps)
    shared = zip(line, owners, strict=True)
    chosen = {task_id: owner for task_id, owner in shared if owner is not None}
    tasks = await take_ready_by_id(tx, sorted(chosen)) if chosen else []
    fresh = {TaskId(task.job_id, task.task_index): task for task in tasks if is_fresh(task)}
    shares: list[list[TakenTask]] = [[] for _ in asked]
    for task_id, owner in chosen.items():
        if task_id in fresh:
            shares[owner].append(fresh[task_id])
    return shares, len(fresh) < len(chosen) or len(line) < len(found)


async def _find_needs(
    ledger: Ledger, tx: Transaction, task_ids: set[TaskId]
) -> dict[TaskId, Resources]:
    """Find what those of these tasks need that name resources."""
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in task_ids})
    needs = {job_id: stored.spec.resources for job_id, stored in specs.items()}
    return {
        task_id: need for task_id in task_ids if (need := needs.get(task_id.job_id)) is not None
    }


async def measure(ledger: Ledger, tx: Transaction, requests: list[ClaimRequest]) -> list[Asked]:
    """Say what decides the share of each; of those with one book, the first is given by it."""
    balances = await hold_balances(ledger, tx, {r.book for r in requests if r.book is not None})
    asked = []
    for request in requests:
        if request.book is None:
            asked.append(request.asked)
        else:
            balance = balances[request.book]
            asked.append(Asked(request.max_tasks, *balance))
            balances[request.book] = balance._replace(free=Capacity())
    return asked


async def find_large(ledger: Ledger, tx: Transaction, requests: Sequence[ClaimRequest]) -> set[int]:
    """Find the requests, by their positions, whose task needs more than is free for it there."""
    bounded = {r.task_id for r in requests if r.is_bounded and r.task_id is not None}
    needs = await _find_needs(ledger, tx, bounded)
    books = {r.book for r in requests if r.book is not None and r.task_id in needs}
    balances = await hold_balances(ledger, tx, books)
    large = set()
    for position, request in enumerate(requests):
        need = None if request.task_id is None else needs.get(request.task_id)
        free = request.free
        if need is not None and request.book is not None:
            free = balances[request.book].free
        if need is None or free is None:
            continue
        if not fits(need, free):
            large.add(position)
        elif request.book is not None:
            balances[request.book] = balances[request.book]._replace(free=subtract(free, need))
    return large


async def ask_limits(
    tx: Transaction, tasks: Sequence[TakenTask], queues: Sequence[str] = ()
) -> dict[TaskId, Passed]:
    """Ask the limits which of these tasks may start; nothing is said where there are none.

    Those that may not are out of the line or back in it when this returns.
    """
    passed = await pass_taken(tx, tasks) if tasks else {}
    tx.news.num_gated += sum(not each.may_start for each in passed.values())
    opens_in = min((p.opens_in for p in passed.values() if p.opens_in is not None), default=None)
    if opens_in is not None:
        tx.news.openings += [(queue, opens_in) for queue in queues]
    return passed


def keep_passed(share: Sequence[TakenTask], passed: Mapping[TaskId, Passed]) -> list[TakenTask]:
    """Keep those tasks that their limits let start."""
    if not passed:
        return list(share)
    return [task for task in share if passed[TaskId(task.job_id, task.task_index)].may_start]


def is_fresh(task: TakenTask) -> bool:
    """Tell whether a task that was in line may be leased."""
    return task.state == TaskState.PENDING and task.job_is_live


def starts_now(task: TakenTask, stored: StoredSpec) -> bool:
    """Tell whether a free worker runs it right away: nothing is built, and it has cost no worker.

    One that has may have to run apart from others, or alone, and then it waits first.
    """
    return stored.spec.starts_at_once and not task.preemption_count and not task.free_loss_count
