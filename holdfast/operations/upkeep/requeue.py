"""Time passes: what waits becomes ready, and what was ready for too long is given up."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.ledger.parts import (
    HELD_PUT_OFF,
    Failure,
    by_job,
    jobs_of,
    raise_broken,
    write_at_once,
    write_chosen,
    write_in_parts,
)
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.rules.limits.gates import explain_gate
from holdfast.store.database import Transaction
from holdfast.store.reads.limits.queues import QueueCondition, read_condition
from holdfast.store.tables.work import tasks as task_table
from holdfast.store.tables.work.ready import (
    ClearedHeads,
    drop_stale_heads,
    feed_ready,
    list_overdue,
    lock_due,
    promote_waiting,
    take_overdue,
)
from holdfast.store.tables.work.tasks import lock_tasks

log = logging.getLogger("holdfast.requeue")
FindLacks = Callable[[int], Awaitable[str | None]]
BATCH_MAX = 1000
PUT_OFF_FACTOR = 4
PUT_OFF_MAX = 10_000  # jobs: of more, those that were put off first are tried again
EXPLAINED_MAX = 20  # jobs a turn: more are ended all the same
LINES_MAX = 1000
HEAD_MAX = 100


class Due:
    """Makes what is due claimable, past what somebody's open transaction keeps from its line.

    Such a transaction has submitted by SQL, and holds a share. Jobs that wait for it are put off,
    for longer the longer they have kept the others waiting.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._put_off: dict[int, float] = {}

    async def requeue(self, *, batch_max: int = BATCH_MAX) -> int:
        """Make due retries and delayed tasks claimable; returns how many."""
        begun_at = time.monotonic()
        self._put_off = {job: until for job, until in self._put_off.items() if until > begun_at}
        except_jobs = list(self._put_off)
        change = partial(_requeue, except_jobs=except_jobs, batch_max=batch_max)
        at_once = await write_at_once(self._ledger, change)
        if at_once is not None:
            return at_once
        async with self._ledger.database.transaction() as tx:
            chosen = await lock_due(tx, except_jobs, batch_max)
        write = partial(self._ledger.write, _requeue_some)
        answers, failures = await write_in_parts(write, by_job(chosen))
        self._leave(failures, seconds=time.monotonic() - begun_at)
        raise_broken(failures)
        return sum(answers)

    def _leave(self, failures: Sequence[Failure[TaskId]], *, seconds: float) -> None:
        """Put off what was left, so that no more than a part of the time is spent on it."""
        until = time.monotonic() + max(HELD_PUT_OFF.total_seconds(), PUT_OFF_FACTOR * seconds)
        left = dict.fromkeys(jobs_of(failures), until)
        self._put_off = dict([*self._put_off.items(), *left.items()][-PUT_OFF_MAX:])


async def requeue_due(ledger: Ledger, batch_max: int = BATCH_MAX) -> int:
    """Make due retries and delayed tasks claimable, whatever was put off; returns how many."""
    return await Due(ledger).requeue(batch_max=batch_max)


async def _requeue(
    _: Ledger, tx: Transaction, *, except_jobs: Sequence[int], batch_max: int
) -> int:
    return await promote(tx, await lock_due(tx, except_jobs, batch_max))


async def _requeue_some(_: Ledger, tx: Transaction, task_ids: list[TaskId]) -> int:
    return await promote(tx, sorted(await lock_tasks(tx, task_ids)))


async def promote(tx: Transaction, task_ids: Sequence[TaskId]) -> int:
    """Make locked tasks claimable whose time has come and whose last lease is gone; counts them."""
    if not task_ids:
        return 0
    ready = await promote_waiting(tx, task_ids)
    for task_id, queue in ready:
        tx.news.add_ready(queue, task_id)
    return len(ready)


async def feed_tasks(tx: Transaction, task_ids: Sequence[TaskId]) -> None:
    """Put tasks in line that have not been there before, and tell who waits for them."""
    if task_ids:
        for task_id, queue in await feed_ready(tx, task_ids):
            tx.news.add_ready(queue, task_id)


async def give_up_scheduling(
    ledger: Ledger, find_lacks: FindLacks | None = None, *, batch_max: int = BATCH_MAX
) -> int:
    """End tasks that waited for a worker longer than their scheduling timeout; returns how many.

    `find_lacks` tells what the ready tasks of a job of placed work lack.
    """
    async with ledger.database.transaction() as tx:
        chosen = await list_overdue(tx, except_jobs=[], batch_max=batch_max)
    if not chosen:
        return 0
    job_ids = sorted({task_id.job_id for task_id in chosen})[:EXPLAINED_MAX]
    # Before they are taken out of line: then nothing would be lacking.
    lacks = await _list_lacks(ledger, job_ids, find_lacks)
    choose = partial(list_overdue, batch_max=batch_max)
    return await write_chosen(ledger, choose, _give_up, lacks=lacks)


async def _list_lacks(
    ledger: Ledger, job_ids: Sequence[int], find_lacks: FindLacks | None
) -> dict[int, str]:
    lacks: dict[int, str | None] = {}
    async with ledger.database.transaction() as tx:
        specs = await ledger.specs.load(tx, job_ids)
        queues = {job_id: stored.terms.queue for job_id, stored in specs.items()}
        for job_id, queue in queues.items():
            if queue is not None:
                lacks[job_id] = describe_queue(queue, await read_condition(tx, queue, job_id))
    for job_id, queue in queues.items():
        if queue is None and find_lacks is not None:
            try:
                lacks[job_id] = await find_lacks(job_id)
            except Exception:  # without its reason a task ends all the same, and so do the others
                log.exception("why job %s waits could not be told", job_id)
    return {job_id: lack for job_id, lack in lacks.items() if lack is not None}


async def _give_up(
    ledger: Ledger, tx: Transaction, task_ids: list[TaskId], *, lacks: Mapping[int, str]
) -> int:
    tasks = await lock_tasks(tx, await take_overdue(tx, task_ids))
    waiting = sorted(task.id for task in tasks.values() if task.state == TaskState.PENDING)
    if not waiting:
        return 0
    specs = await ledger.specs.load(tx, {task_id.job_id for task_id in waiting})
    causes = {}
    for task_id in waiting:
        timeout = specs[task_id.job_id].terms.scheduling_timeout
        causes[task_id] = f"no worker took it within its scheduling timeout of {timeout:g} s"
        if lack := lacks.get(task_id.job_id):
            causes[task_id] += f": {lack}"
    await task_table.give_up_scheduling(tx, causes)
    moves = Moves()
    for task_id, cause in causes.items():
        moves.add(task_id.job_id, TaskState.PENDING, TaskState.UNSCHEDULABLE)
        moves.add_error(task_id.job_id, cause)
    await apply_moves(tx, moves)
    return len(waiting)


def describe_queue(queue: str, condition: QueueCondition) -> str:
    """Tell what stands between a queue's tasks and a worker."""
    if condition.paused_by is not None:
        return f"queue {queue} is paused by {condition.paused_by}"
    if not condition.is_served:
        return f"no worker serves queue {queue}"
    if condition.too_large is not None:
        return f"it could never fit on a worker of queue {queue}: {condition.too_large}"
    if condition.gate is not None:
        return explain_gate(condition.gate, condition.now).message
    return f"the workers of queue {queue} were busy"


class Lines:
    """Walks through the queues, a stretch a turn, for cancelled tasks where no claim comes by."""

    def __init__(self, ledger: Ledger, *, queues_max: int = LINES_MAX) -> None:
        self._ledger = ledger
        self._queues_max = queues_max
        self._after = ""

    async def clear(self) -> bool:
        """Clear the heads of the next queues; returns whether there may be more to do."""
        found = await self._ledger.write(_clear, self._after, queues_max=self._queues_max)
        if found.dropped < HEAD_MAX:
            self._after = found.last_queue or ""
        return found.dropped >= HEAD_MAX or found.last_queue is not None


async def _clear(_: Ledger, tx: Transaction, after: str, *, queues_max: int) -> ClearedHeads:
    return await drop_stale_heads(tx, after, queues_max=queues_max, head_max=HEAD_MAX)
