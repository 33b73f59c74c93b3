"""The tables of tasks in line: ready ones, and those that wait until they are due."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import id_columns

_READY = load_statements("work/ready")
_LIMITS = load_statements("limits/limits")
# So many that come into line at once are in nobody's way, whatever limits there are.
FEW = 10


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
    # When it is given up, should nobody have taken it by then.
    gives_up_at: datetime | None = None


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


class Place(NamedTuple):
    """A place in the order of a queue."""

    urgency: int
    eligible_at: datetime
    job_id: int
    task_index: int


# Before all that can be in line.
FIRST_PLACE = Place(-(2**31), datetime.fromtimestamp(0, UTC), 0, 0)


class FoundTask(NamedTuple):
    """A task that was in line, and in which queue."""

    queue: str
    task: TakenTask

    @property
    def place(self) -> Place:
        """Say where it stood."""
        task = self.task
        return Place(task.urgency, task.eligible_at, task.job_id, task.task_index)


async def take_ready_from(
    tx: Transaction, places: Mapping[str, Place], tasks_max: int
) -> list[FoundTask]:
    """Take the first tasks out of queues that are not paused, each from a place on."""
    rows = await tx.fetch(
        _READY["take_ready_from"],
        queues=list(places),
        urgencies=[place.urgency for place in places.values()],
        eligible_at=[place.eligible_at for place in places.values()],
        job_ids=[place.job_id for place in places.values()],
        task_indexes=[place.task_index for place in places.values()],
        tasks_max=tasks_max,
    )
    return [FoundTask(queue, TakenTask(*values)) for *values, queue in rows]


class InLine(NamedTuple):
    """A task in line; stale if it has moved on, or its job has ended or is cancelled."""

    job_id: int
    task_index: int
    queue: str
    is_stale: bool


async def read_line(tx: Transaction, queues: Sequence[str], tasks_max: int) -> list[InLine]:
    """Read the first tasks of queues that are not paused, in their order, without taking them."""
    rows = await tx.fetch(_READY["read_line"], queues=queues, tasks_max=tasks_max)
    return list(map(InLine._make, rows))


async def take_ready_by_id(tx: Transaction, task_ids: Sequence[TaskId]) -> list[TakenTask]:
    """Take these tasks out of their queues, as far as they are in line."""
    rows = await tx.fetch(_READY["take_ready_by_id"], **id_columns(task_ids))
    return list(map(TakenTask._make, rows))


class Passed(NamedTuple):
    """Whether its limits let a task start, the buckets whose slots it takes then, and how many."""

    job_id: int
    task_index: int
    may_start: bool
    held: str | None
    slots: int | None
    # In how many seconds a rate allows more.
    opens_in: float | None


async def pass_taken(tx: Transaction, tasks: Sequence[TakenTask]) -> dict[TaskId, Passed]:
    """Ask the limits for tasks that were taken out of line; those that have to wait are put back.

    Nothing is returned where there are no limits.
    """
    rows = await tx.fetch(
        _LIMITS["pass_taken"],
        job_ids=[task.job_id for task in tasks],
        task_indexes=[task.task_index for task in tasks],
        give_ups=[task.gives_up_at for task in tasks],
        avoids=[None] * len(tasks),
    )
    return {TaskId(row[0], row[1]): Passed._make(row) for row in rows}


class Room(NamedTuple):
    """How many slots queues have to give by their own limits, and in how many seconds more."""

    caps: dict[str, int]
    opens_in: float | None = None


async def find_room(tx: Transaction, queues: Sequence[str], tasks_max: int) -> Room:
    """Find what queues may start, up to so much each; nothing is said where there are no limits."""
    row = await tx.fetch_one(_LIMITS["find_room"], queues=queues, tasks_max=tasks_max)
    if row is None:
        return Room({})
    return Room(dict(zip(queues, row[0], strict=True)), row[1])


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
    columns = ready_columns(stretches)
    await tx.fetch(
        _READY["insert_ready"],
        **columns,
        eligible_at=[now] * len(stretches),
        first_indexes=[0] * len(stretches),
    )
    await tx.fetch(
        _LIMITS["gate_stretches"],
        job_ids=columns["job_ids"],
        end_indexes=columns["end_indexes"],
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


async def lock_due(tx: Transaction, except_jobs: Sequence[int], batch_max: int) -> list[TaskId]:
    """Lock waiting tasks that are due and whose last lease is gone, and that nobody holds."""
    rows = await tx.fetch(_READY["lock_due"], except_jobs=except_jobs, batch_max=batch_max)
    return list(map(TaskId._make, rows))


class ReadyTask(NamedTuple):
    """A task that stands in line, and its queue; that of placed work is empty."""

    task_id: TaskId
    queue: str


async def promote_waiting(tx: Transaction, task_ids: Sequence[TaskId]) -> list[ReadyTask]:
    """Put locked tasks in line whose time has come and whose last lease is gone."""
    found = _ready(await tx.fetch(_READY["promote_waiting"], **id_columns(task_ids)))
    if len(found) > FEW:
        await tx.fetch(_LIMITS["gate_crowds"], **id_columns([each.task_id for each in found]))
    return found


async def feed_ready(tx: Transaction, task_ids: Sequence[TaskId]) -> list[ReadyTask]:
    """Put tasks in line that have not been there before; those for later are made to wait."""
    fed = _ready(await tx.fetch(_READY["feed_ready"], **id_columns(task_ids)))
    await tx.fetch(_LIMITS["gate_crowds"], **id_columns([each.task_id for each in fed]))
    return fed


async def list_overdue(
    tx: Transaction, *, except_jobs: Sequence[int], batch_max: int
) -> list[TaskId]:
    """List tasks in line for longer than their scheduling timeout, and that nobody holds."""
    rows = await tx.fetch(_READY["list_overdue"], except_jobs=except_jobs, batch_max=batch_max)
    if len(rows) < batch_max:
        rows += await tx.fetch(
            _LIMITS["list_overdue_gated"], except_jobs=except_jobs, batch_max=batch_max - len(rows)
        )
    return list(map(TaskId._make, rows))


async def take_overdue(tx: Transaction, task_ids: Sequence[TaskId]) -> list[TaskId]:
    """Take out of line what is overdue of these tasks."""
    rows = await tx.fetch(_READY["take_overdue"], **id_columns(task_ids))
    if len(rows) < len(task_ids):
        rows += await tx.fetch(_LIMITS["take_overdue_gated"], **id_columns(task_ids))
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
