"""Tasks as they are shown: what their rows say, what else is known, and what they wait for."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.api import convert
from holdfast.api.explain import pending_reason
from holdfast.model.states import TaskState
from holdfast.rules.placement.scheduler import Reason
from holdfast.services.reasons import Reasons
from holdfast.store.database import Transaction
from holdfast.store.reads import attempts, graph, queues
from holdfast.store.reads.attempts import AccountRow
from holdfast.store.reads.jobs import JobRow
from holdfast.store.reads.queues import Feeding, QueueCondition
from holdfast.store.reads.tasks import TaskRow
from holdfast.wire.status import TaskStatus

UNMET_SHOWN_MAX = 20


class Facts(NamedTuple):
    """What is known of some tasks of a job beyond their rows; of placed ones, by index.

    `standing` are those that stand in line, and whom each keeps away from; `unmet` are the first
    of the jobs that theirs still waits for; `feeding` is how far their job stands in line.
    """

    condition: QueueCondition
    ahead: int | None
    standing: dict[int, str | None]
    accounts: dict[int, AccountRow]
    unmet: list[int]
    feeding: Feeding | None = None


async def read_facts(
    tx: Transaction, job: JobRow, rows: Sequence[TaskRow], *, ahead: int | None = None
) -> Facts:
    """Read what is known of tasks of one job beyond their rows."""
    condition = await queues.read_condition(tx, job.queue)
    unmet = await graph.list_unmet(tx, job.job_id, UNMET_SHOWN_MAX) if job.unmet else []
    if job.queue is not None:
        return Facts(condition, ahead, {}, {}, unmet)
    waiting = [row.task_index for row in rows if row.state == TaskState.PENDING]
    is_over = job.cancel_mode is not None or job.finished_at is not None
    standing = {}
    if waiting and not is_over:
        standing = await queues.read_standing(tx, job.job_id, waiting)
    current = [convert.current_attempt_of(row) for row in rows]
    tried = [each for each in current if each.attempt != convert.NO_ATTEMPT]
    accounts = await attempts.read_accounts(tx, job.job_id, tried) if tried else {}
    return Facts(condition, ahead, standing, accounts, unmet)


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
        )
        for row, reason in zip(rows, found, strict=True)
    ]


async def why_pending(
    reasons: Reasons, job: JobRow, rows: Sequence[TaskRow], *, facts: Facts
) -> list[Reason | None]:
    """Say what each of some tasks waits for; what holds for a whole line is found out once."""
    standing = facts.standing
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
            unmet=facts.unmet,
            feeding=facts.feeding,
        )
        for row in rows
    ]


async def count_ahead(tx: Transaction, job: JobRow, task: TaskRow) -> int | None:
    """Count the tasks that stand before one in its queue; None if it stands in none."""
    if task.state != TaskState.PENDING or job.queue is None or job.unmet:
        return None
    return await queues.count_ahead(tx, job, task)
