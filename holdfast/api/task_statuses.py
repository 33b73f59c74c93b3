"""Tasks as they are shown: what their rows say, what else is known, and what they wait for."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.api import convert
from holdfast.api.explain import job_reasons, pending_reason
from holdfast.model.work.states import TaskState
from holdfast.rules.limits.gates import Gate
from holdfast.rules.placement.claiming import explain_no_room
from holdfast.rules.placement.scheduler import Reason
from holdfast.services.reasons import Reasons
from holdfast.store.database import Database, Transaction
from holdfast.store.reads.limits import queues
from holdfast.store.reads.limits.gates import list_gates
from holdfast.store.reads.limits.queues import Feeding, QueueCondition
from holdfast.store.reads.limits.shares import ShareTurn
from holdfast.store.reads.work import attempts, graph, tasks
from holdfast.store.reads.work.attempts import AccountRow
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.reads.work.signals import ParkedRow, list_parked
from holdfast.store.reads.work.tasks import TaskRow
from holdfast.store.reads.workers.serving import Serving, find_need, list_serving
from holdfast.wire.status import TaskStatus

UNMET_SHOWN_MAX = 20


class Facts(NamedTuple):
    """What is known of some tasks of a job beyond their rows, by index.

    `standing` are placed ones that stand in line, and whom each keeps away from; `unmet` are the
    first of the jobs that theirs still waits for; `feeding` is how far their job stands in line;
    `serving` is who serves their queue, if they name resources, and what is free there;
    `parked` are those that wait for a signal, `gates` what limits hold back.
    """

    condition: QueueCondition
    ahead: int | ShareTurn | None
    standing: dict[int, str | None]
    accounts: dict[int, AccountRow]
    unmet: list[graph.UnmetRow]
    feeding: Feeding | None
    serving: Serving | None
    parked: dict[int, ParkedRow]
    gates: dict[int, Gate]


async def read_facts(
    tx: Transaction, job: JobRow, rows: Sequence[TaskRow], *, ahead: int | ShareTurn | None = None
) -> Facts:
    """Read what is known of tasks of one job beyond their rows."""
    condition = await queues.read_condition(tx, job.queue, job.job_id)
    unmet = await graph.list_unmet(tx, job.job_id, UNMET_SHOWN_MAX) if job.unmet else []
    waiting = [row.task_index for row in rows if row.state == TaskState.PENDING]
    feeding = await queues.find_feeding(tx, job.job_id) if waiting else None
    is_over = job.cancel_mode is not None or job.finished_at is not None
    standing = {}
    if waiting and job.queue is None and not is_over:
        standing = await queues.read_standing(tx, job.job_id, waiting)
    current = [convert.current_attempt_of(row) for row in rows]
    tried = [each for each in current if each.attempt != convert.NO_ATTEMPT]
    accounts = await attempts.read_accounts(tx, job.job_id, tried) if tried else {}
    serving = None
    # Of a job as a whole, what stands in line may be in none of the rows.
    if job.queue is not None and not is_over and (waiting or not rows):
        serving = await _read_serving(tx, job.queue, job.job_id)
    # None waits for a signal before its first attempt has.
    tried_again = [row.task_index for row in rows if row.state == TaskState.PENDING and row.attempt]
    parked = await list_parked(tx, job.job_id, tried_again) if tried_again and not is_over else {}
    gates = {}
    if waiting and not is_over:
        gates = await list_gates(
            tx, job.job_id, waiting, now=condition.now, counts_ahead=len(waiting) == 1
        )
    return Facts(condition, ahead, standing, accounts, unmet, feeding, serving, parked, gates)


async def _read_serving(tx: Transaction, queue: str, job_id: int) -> Serving | None:
    need = await find_need(tx, job_id)
    workers = None if need is None else await list_serving(tx, queue)
    return None if need is None or workers is None else Serving(need, workers)


async def find_no_room(facts: Facts) -> Reason | None:
    """Say what the workers of a queue lack for tasks that name resources; None if one has room."""
    if facts.serving is None:
        return None
    need, workers = facts.serving
    # In a thread: there may be many workers.
    return await asyncio.to_thread(explain_no_room, workers, need)


async def list_statuses(
    reasons: Reasons, job: JobRow, rows: Sequence[TaskRow], *, facts: Facts
) -> list[TaskStatus]:
    """Describe tasks of one job, the pending ones with what they wait for."""
    found = await why_pending(reasons, job, rows, facts=facts)
    return [
        convert.task_status(
            row,
            now=facts.condition.now,
            pending_reason=None if reason is None else reason.message,
            account=facts.accounts.get(row.task_index, AccountRow()),
            parked=facts.parked.get(row.task_index),
        )
        for row, reason in zip(rows, found, strict=True)
    ]


async def why_pending(
    reasons: Reasons, job: JobRow, rows: Sequence[TaskRow], *, facts: Facts
) -> list[Reason | None]:
    """Say what each of some tasks waits for; what holds for a whole line is found out once."""
    standing = facts.standing
    no_room = await find_no_room(facts)
    placing: dict[str | None, Reason] = {}
    if standing:
        placing = await reasons.find(job.job_id, set(standing.values()))
    by_task = {index: placing.get(avoid) for index, avoid in standing.items()}
    return [
        pending_reason(
            job,
            row,
            facts.condition,
            ahead=facts.ahead,
            placing=by_task.get(row.task_index),
            no_room=no_room,
            unmet=facts.unmet,
            feeding=facts.feeding,
            parked=facts.parked.get(row.task_index),
            gate=facts.gates.get(row.task_index),
        )
        for row in rows
    ]


async def why_job_waits(reasons: Reasons, reads: Database, job: JobRow) -> list[Reason]:
    """Say what the pending tasks of a job wait for; a few are looked at, however many there are."""
    if job.pending == 0 or job.finished_at is not None:
        return []
    async with reads.transaction() as tx:
        rows, later_count = await tasks.list_waiting_tasks(tx, job.job_id)
        facts = await read_facts(tx, job, rows)
        feeding = await queues.find_feeding(tx, job.job_id)
    found = await why_pending(reasons, job, rows, facts=facts)
    return job_reasons(
        job,
        facts.condition,
        found=found,
        no_room=await find_no_room(facts),
        later_count=later_count,
        unmet=facts.unmet,
        feeding=feeding,
    )


async def count_ahead(tx: Transaction, job: JobRow, task: TaskRow) -> int | ShareTurn | None:
    """Count the tasks that stand before one in its queue; None if it stands in none."""
    if task.state != TaskState.PENDING or job.queue is None or job.unmet:
        return None
    return await queues.count_ahead(tx, job, task)
