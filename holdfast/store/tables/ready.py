"""The tables of tasks in line: ready ones, and those that wait until they are due."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.model.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import id_columns

_READY = load_statements("ready")


class TakenTask(NamedTuple):
    """A task that was in line, locked; stale if it is not PENDING or its job is not live."""

    job_id: int
    task_index: int
    state: int
    attempt: int
    failure_count: int
    preemption_count: int
    free_loss_count: int
    input: str | None
    job_is_live: bool
    urgency: int
    eligible_at: datetime


async def take_ready(tx: Transaction, queues: Sequence[str], tasks_max: int) -> list[TakenTask]:
    """Take the first tasks out of queues that are not paused.

    Of several queues no more is locked than is taken, unless somebody holds some of the first.
    """
    if len(queues) == 1:
        return await _take_ready(tx, {queues[0]: tasks_max}, tasks_max)
    rows = await tx.fetch(_READY["share_ready"], queues=queues, tasks_max=tasks_max)
    shares: dict[str, int] = dict(rows)
    taken = await _take_ready(tx, shares, tasks_max) if shares else []
    missing = tasks_max - len(taken)
    if missing and sum(shares.values()) == tasks_max:
        taken += await _take_ready(tx, dict.fromkeys(queues, missing), missing)
    return taken


async def _take_ready(
    tx: Transaction, shares: Mapping[str, int], tasks_max: int
) -> list[TakenTask]:
    rows = await tx.fetch(
        _READY["take_ready"],
        queues=list(shares),
        shares=list(shares.values()),
        tasks_max=tasks_max,
    )
    return list(map(TakenTask._make, rows))


class InLine(NamedTuple):
    """A task in line; stale if it has moved on, or its job has ended or is cancelled."""

    job_id: int
    task_index: int
    is_stale: bool


async def read_line(tx: Transaction, queues: Sequence[str], tasks_max: int) -> list[InLine]:
    """Read the first tasks of queues that are not paused, in their order, without taking them."""
    rows = await tx.fetch(_READY["read_line"], queues=queues, tasks_max=tasks_max)
    return list(map(InLine._make, rows))


async def take_ready_by_id(tx: Transaction, task_ids: Sequence[TaskId]) -> list[TakenTask]:
    """Take these tasks out of their queues, as far as they are in line."""
    rows = await tx.fetch(_READY["take_ready_by_id"], **id_columns(task_ids))
    return list(map(TakenTask._make, rows))


async def drop_stale(tx: Transaction, queues: Sequence[str], batch_max: int) -> None:
    """Clear the heads of queues of tasks that have moved on."""
    await tx.fetch(_READY["drop_stale"], queues=queues, batch_max=batch_max)


class Stretch(NamedTuple):
    """Tasks of a job, from an index up to another."""

    job_id: int
    first_index: int
    end_index: int

    @classmethod
    def of(cls, task_id: TaskId) -> "Stretch":
        """Name a single task."""
        return cls(task_id.job_id, task_id.task_index, task_id.task_index + 1)


async def leave_line(tx: Transaction, stretches: Sequence[Stretch]) -> None:
    """Take tasks out of line that will be killed, before they are locked; held rows stay."""
    await tx.fetch(
        _READY["leave_line"],
        job_ids=[stretch.job_id for stretch in stretches],
        first_indexes=[stretch.first_index for stretch in stretches],
        end_indexes=[stretch.end_index for stretch in stretches],
    )


class ClearedHeads(NamedTuple):
    """How many tasks went from the heads of queues; `last_queue` if there may be more queues."""

    dropped: int
    last_queue: str | None


async def drop_stale_heads(
    tx: Transaction, after: str, *, queues_max: int, head_max: int
) -> ClearedHeads:
    """Clear the heads of the queues that follow one of tasks that have moved on."""
    row = await tx.fetch_one(
        _READY["drop_stale_heads"], after=after, queues_max=queues_max, head_max=head_max
    )
    assert row is not None
    return ClearedHeads._make(row)


async def explain_unclaimable(tx: Transaction, task_ids: Sequence[TaskId]) -> dict[TaskId, str]:
    """Say why tasks could not be claimed by their ids."""
    rows = await tx.fetch(_READY["explain_unclaimable"], **id_columns(task_ids))
    return {TaskId(row[0], row[1]): row[2] for row in rows}


class ReadyStretch(NamedTuple):
    """The first tasks of a new job, up to an index, and how they stand in line."""

    job_id: int
    queue: str
    urgency: int
    end_index: int
    scheduling_timeout: timedelta | None


def ready_columns(stretches: Sequence[ReadyStretch]) -> dict[str, list[Any]]:
    """Spread stretches into the arrays that statements take."""
    return {
        "job_ids": [stretch.job_id for stretch in stretches],
        "queues": [stretch.queue for stretch in stretches],
        "urgencies": [stretch.urgency for stretch in stretches],
        "end_indexes": [stretch.end_index for stretch in stretches],
        "scheduling_timeouts": [stretch.scheduling_timeout for stretch in stretches],
    }


async def insert_ready(
    tx: Transaction, stretches: Sequence[ReadyStretch], *, now: datetime
) -> None:
    """Put tasks that are stored where claims find them."""
    await tx.fetch(
        _READY["insert_ready"],
        **ready_columns(stretches),
        eligible_at=[now] * len(stretches),
        first_indexes=[0] * len(stretches),
    )


class WaitingStretch(NamedTuple):
    """The first tasks of a new job, up to an index, and when they can be taken."""

    job_id: int
    end_index: int
    eligible_at: datetime


async def insert_waiting(tx: Transaction, stretches: Sequence[WaitingStretch]) -> None:
    """Put tasks that are stored where they wait until they are due."""
    await tx.fetch(
        _READY["insert_waiting"],
        job_ids=[stretch.job_id for stretch in stretches],
        first_indexes=[0] * len(stretches),
        end_indexes=[stretch.end_index for stretch in stretches],
        eligible_at=[stretch.eligible_at for stretch in stretches],
    )


async def lock_due(tx: Transaction, batch_max: int) -> list[TaskId]:
    """Lock waiting tasks that are due and whose last lease is gone, and that nobody holds."""
    rows = await tx.fetch(_READY["lock_due"], batch_max=batch_max)
    return list(map(TaskId._make, rows))


class ReadyTask(NamedTuple):
    """A task that stands in line, and its queue; that of placed work is empty."""

    task_id: TaskId
    queue: str


async def promote_waiting(tx: Transaction, task_ids: Sequence[TaskId]) -> list[ReadyTask]:
    """Put locked tasks in line whose time has come and whose last lease is gone."""
    return _ready(await tx.fetch(_READY["promote_waiting"], **id_columns(task_ids)))


async def feed_ready(tx: Transaction, task_ids: Sequence[TaskId]) -> list[ReadyTask]:
    """Put tasks in line that have not been there before; those for later are made to wait."""
    return _ready(await tx.fetch(_READY["feed_ready"], **id_columns(task_ids)))


async def list_overdue(
    tx: Transaction, *, except_jobs: Sequence[int], batch_max: int
) -> list[TaskId]:
    """List tasks in line for longer than their scheduling timeout, and that nobody holds."""
    rows = await tx.fetch(_READY["list_overdue"], except_jobs=except_jobs, batch_max=batch_max)
    return list(map(TaskId._make, rows))


async def take_overdue(tx: Transaction, task_ids: Sequence[TaskId]) -> list[TaskId]:
    """Take out of line what is overdue of these tasks."""
    rows = await tx.fetch(_READY["take_overdue"], **id_columns(task_ids))
    return list(map(TaskId._make, rows))


async def notify_ready(tx: Transaction, queue: str) -> None:
    """Tell every server that a queue has work."""
    await tx.fetch(_READY["notify_ready"], queue=queue)


async def list_queues_with_work(tx: Transaction, queues: Sequence[str]) -> list[str]:
    """List those of these queues from which something can be claimed now."""
    return [row[0] for row in await tx.fetch(_READY["list_queues_with_work"], queues=queues)]


async def list_waited(tx: Transaction, *, waited: timedelta, tasks_max: int) -> list[ReadyTask]:
    """List the heads of all queues, as far as they have been in line for a while."""
    rows = await tx.fetch(_READY["list_waited"], waited=waited, tasks_max=tasks_max)
    return [ReadyTask(TaskId(job_id, index), queue) for queue, job_id, index in rows]


def _ready(rows: Sequence[Any]) -> list[ReadyTask]:
    return [ReadyTask(TaskId(job_id, index), queue) for job_id, index, queue in rows]
