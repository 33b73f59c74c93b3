"""Tasks with what is known of their attempts, their inputs and results, and how many are live."""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.errors import NotFound
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import OPEN_STATES, TaskState
from holdfast.store.database import Transaction
from holdfast.store.pages import Page, fill_page, walker
from holdfast.store.reads.limits.gates import count_gated
from holdfast.store.reads.work.attempts import count_leases
from holdfast.store.reads.work.jobs import JobRow, find_job
from holdfast.store.statements import Statement, load_statements

_TASKS = load_statements("reads/work/tasks")
CONTINUED_MAX = 1000
COUNTED_MAX = 5000
SAMPLE_PAGES_MAX = 200
OPEN_COUNTED_MAX = 1000
WAITING_COUNTED_MAX = 1000


class TaskRow(NamedTuple):
    """A task with its lease, open or ending, its last ended attempt and its last progress."""

    job_id: int
    task_index: int
    state: int
    attempt: int
    failure_count: int
    preemption_count: int
    eligible_at: datetime
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cause: str | None
    lease_attempt: int | None
    lease_worker_id: str | None
    lease_expires_at: datetime | None
    lease_duration: timedelta | None
    lease_is_ending: bool | None
    cancel_deadline_at: datetime | None
    last_attempt: int | None
    last_worker_id: str | None
    last_started_at: datetime | None
    exit_code: int | None
    error: str | None
    error_class: str | None
    progress_attempt: int | None
    progress: str | None

    @property
    def id(self) -> TaskId:
        """Name the task."""
        return TaskId(self.job_id, self.task_index)

    @property
    def is_open(self) -> bool:
        """Tell whether an attempt of it is under way."""
        return self.lease_is_ending is False


class ResultRow(NamedTuple):
    """How a task stands and what it returned, a JSON text."""

    task_index: int
    state: int
    is_finished: bool
    result: str | None
    cause: str | None
    exit_code: int | None
    error: str | None
    error_class: str | None
    is_pickled: bool
    is_fan_out: bool = False


class Live(NamedTuple):
    """Tasks that have not ended: in line, due later, and by the states of open attempts.

    Those that limits hold back are `gated`; what waits for a signal is not due later.
    """

    ready: int
    waiting: int
    assigned: int
    building: int
    running: int
    is_estimate: bool
    gated: int = 0
    awaiting_signal: int = 0


async def list_tasks(
    tx: Transaction,
    job_id: int,
    state: TaskState | None = None,
    *,
    after: int = -1,
    page_size: int,
) -> Page[TaskRow, int]:
    """List the tasks of a job by index; a page may be short and still not be the last one."""
    if state in OPEN_STATES:
        statement = _TASKS["walk_leased_tasks"]
    elif state == TaskState.DEAD_LETTERED:
        statement = _TASKS["walk_dead_tasks"]
    else:
        statement = _TASKS["walk_tasks"]

    async def read(task_indexes: list[int], count_max: int) -> list[TaskRow]:
        return await _read_tasks(tx, job_id, task_indexes, state=state, count_max=count_max)

    return await fill_page(
        walker(tx, statement, "after_index", job_id=job_id),
        read,
        lambda task: task.task_index,
        after=after,
        page_size=page_size,
    )


async def list_waiting_tasks(tx: Transaction, job_id: int) -> tuple[list[TaskRow], int]:
    """List a task for each way in which those of a job wait beside a queue, the nearest first.

    Also counts those that wait for a time or a limit, up to a bound.
    """
    row = await tx.fetch_one(
        _TASKS["list_waiting_tasks"], job_id=job_id, count_max=WAITING_COUNTED_MAX
    )
    assert row is not None
    *found, later_count = row
    indexes = list(dict.fromkeys(index for index in found if index is not None))
    rows = await _read_tasks(tx, job_id, indexes, state=TaskState.PENDING, count_max=len(indexes))
    return sorted(rows, key=lambda task: indexes.index(task.task_index)), later_count


async def get_task(tx: Transaction, task_id: TaskId) -> tuple[JobRow, TaskRow]:
    """Read one task and its job. Raises NotFound."""
    job = await find_job(tx, task_id.job_id)
    if job is not None:
        for task in await _read_tasks(
            tx, task_id.job_id, [task_id.task_index], state=None, count_max=1
        ):
            return job, task
    raise NotFound("task", task_id)


async def _read_tasks(
    tx: Transaction, job_id: int, task_indexes: list[int], *, state: int | None, count_max: int
) -> list[TaskRow]:
    rows = await tx.fetch(
        _TASKS["read_tasks"],
        job_id=job_id,
        task_indexes=task_indexes,
        state=state,
        count_max=count_max,
    )
    return [TaskRow(*row) for row in rows]


async def get_input(tx: Transaction, task_id: TaskId) -> str | None:
    """Read what a task was given, a JSON text. Raises NotFound."""
    row = await tx.fetch_one(
        _TASKS["get_input"], job_id=task_id.job_id, task_index=task_id.task_index
    )
    if row is None:
        raise NotFound("task", task_id)
    text: str | None = row[0]
    return text


async def get_result(tx: Transaction, task_id: TaskId) -> ResultRow:
    """Read how a task stands and what it returned. Raises NotFound."""
    found = await list_results(tx, task_id.job_id, after=task_id.task_index - 1, page_size=1)
    if not found or found[0].task_index != task_id.task_index:
        raise NotFound("task", task_id)
    return found[0]


async def list_results(
    tx: Transaction, job_id: int, *, after: int = -1, page_size: int
) -> list[ResultRow]:
    """List how the tasks of a job stand and what they returned, by index."""
    rows = await tx.fetch(
        _TASKS["list_results"], job_id=job_id, after_index=after, count_max=page_size
    )
    return [ResultRow(*row) for row in rows]


async def list_continued(tx: Transaction, job_id: int) -> list[int]:
    """List a job and those that it continues, the first of them first. Raises NotFound."""
    rows = await tx.fetch(_TASKS["list_continued"], job_id=job_id, count_max=CONTINUED_MAX)
    gone = rows[-1][1] if rows else job_id
    if gone is not None:
        raise NotFound("job", gone)
    return [row[0] for row in reversed(rows)]


async def count_pending(tx: Transaction) -> tuple[int, int, bool]:
    """Count the tasks in line and those due later; says whether that is an estimate."""
    row = await tx.fetch_one(_TASKS["count_pending"], count_max=COUNTED_MAX)
    assert row is not None
    ready, waiting, ready_pages, waiting_pages = row
    is_estimate = COUNTED_MAX in (ready, waiting)
    if ready == COUNTED_MAX:
        ready = await _sample(tx, _TASKS["sample_ready"], ready_pages)
    if waiting == COUNTED_MAX:
        waiting = await _sample(tx, _TASKS["sample_waiting"], waiting_pages)
    return ready, waiting, is_estimate


async def _sample(tx: Transaction, statement: Statement, pages: int) -> int:
    """Estimate the rows of a table from some of its pages."""
    share = min(SAMPLE_PAGES_MAX / max(pages, 1), 1.0)
    row = await tx.fetch_one(statement, percent=100 * share)
    assert row is not None
    found: int = row[0]
    return max(round(found / share), COUNTED_MAX)


async def count_live(tx: Transaction) -> Live:
    """Count the tasks that have not ended; what is many is estimated from a sample."""
    ready, waiting, is_estimate = await count_pending(tx)
    gated, is_gated_estimate = await count_gated(tx)
    parked = await _count_parked(tx, waiting) if waiting else 0
    total, _ = await count_leases(tx)
    rows = await tx.fetch(_TASKS["count_open_states"], count_max=OPEN_COUNTED_MAX)
    states: dict[int, int] = dict(rows)
    looked_at = sum(states.values())
    # One that ended between the two looks is not there, and is no reason to call it an estimate.
    scale = total / looked_at if total > OPEN_COUNTED_MAX and looked_at else 1.0

    def count(state: TaskState) -> int:
        return round(states.get(state, 0) * scale)

    return Live(
        ready,
        waiting - parked,
        count(TaskState.ASSIGNED),
        count(TaskState.BUILDING),
        count(TaskState.RUNNING),
        is_estimate or is_gated_estimate or scale != 1.0,
        sum(gated.values()),
        parked,
    )


async def _count_parked(tx: Transaction, waiting: int) -> int:
    """Count what waits for a signal, among so many that come later."""
    row = await tx.fetch_one(_TASKS["count_parked"], count_max=COUNTED_MAX)
    assert row is not None
    parked, looked_at = row
    return round(parked * waiting / looked_at) if looked_at == COUNTED_MAX else int(parked)
