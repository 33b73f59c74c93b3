"""What people read of jobs, tasks, attempts and results.

Every read here finds its rows by an index, in a transaction as the writers open it. A job that is
still arriving does not exist for readers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.errors import NotFound
from holdfast.model.ids import TaskId
from holdfast.model.states import OPEN_STATES, JobState, TaskState
from holdfast.store.database import Transaction
from holdfast.store.pages import Page, fill_page
from holdfast.store.statements import Statement, load_statements

_VIEWS = load_statements("views")
AHEAD_MAX = 1000
SILENT_AFTER = timedelta(seconds=30)
Walk = Callable[[int, int], Awaitable[list[int]]]


class JobRow(NamedTuple):
    """A job; `labels` and `spec` are JSON texts, and lists come without the spec."""

    job_id: int
    name: str
    type: str
    owner: str
    queue: str | None
    priority: int
    labels: str
    parent_job_id: int | None
    replay_of: int | None
    correlation_id: str
    trace_id: str | None
    idempotency_key: str | None
    submitted_at: datetime
    state: int
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    exit_code: int | None
    cancel_mode: str | None
    cancel_reason: str | None
    num_tasks: int
    pending: int
    assigned: int
    building: int
    running: int
    succeeded: int
    failed: int
    killed: int
    worker_failed: int
    unschedulable: int
    dead_lettered: int
    graph_id: int | None
    compensates_job_id: int | None
    unmet: int
    released_at: datetime | None
    # Which job undoes it, and whether that has succeeded; told where the spec is.
    compensated_by: int | None
    is_compensated: bool | None
    spec: str | None


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


class AttemptRow(NamedTuple):
    """One attempt, open or ended; what it was given and has used are JSON texts."""

    attempt: int
    worker_id: str
    state: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    released_at: datetime | None
    exit_code: int | None
    error: str | None
    error_class: str | None
    stage: str | None
    is_worker_failure: bool
    lease_expires_at: datetime
    ports: str | None
    usage: str | None
    build: str | None


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


class Line(NamedTuple):
    """What stands between a queue's tasks and a worker, and since when that is known."""

    now: datetime
    paused_by: str | None
    is_served: bool


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; None means any. `name` is a prefix, `label` a key and its value."""

    state: JobState | None = None
    name: str | None = None
    type: str | None = None
    owner: str | None = None
    queue: str | None = None
    parent_job_id: int | None = None
    label: tuple[str, str] | None = None
    # The first moment that counts, and the first after them.
    submitted_from: datetime | None = None
    submitted_until: datetime | None = None


async def find_job(tx: Transaction, job_id: int) -> JobRow | None:
    """Read one job without its spec, which may be large."""
    rows = await read_jobs(tx, [job_id], JobFilter(), count_max=1)
    return rows[0] if rows else None


async def get_job(tx: Transaction, job_id: int) -> JobRow:
    """Read one job without its spec. Raises NotFound."""
    job = await find_job(tx, job_id)
    if job is None:
        raise NotFound("job", job_id)
    return job


async def get_job_with_spec(tx: Transaction, job_id: int) -> JobRow:
    """Read one job whole. Raises NotFound."""
    row = await tx.fetch_one(_VIEWS["get_job_with_spec"], job_id=job_id)
    if row is None:
        raise NotFound("job", job_id)
    return JobRow(*row)


async def read_jobs(
    tx: Transaction, job_ids: list[int], wanted: JobFilter, *, count_max: int
) -> list[JobRow]:
    """Read those of these jobs that are wanted, the newest first."""
    label_key, label_value = wanted.label or (None, None)
    rows = await tx.fetch(
        _VIEWS["read_jobs"],
        job_ids=job_ids,
        state=wanted.state,
        name=wanted.name,
        type=wanted.type,
        owner=wanted.owner,
        queue=wanted.queue,
        parent_job_id=wanted.parent_job_id,
        label_key=label_key,
        label_value=label_value,
        submitted_from=wanted.submitted_from,
        submitted_until=wanted.submitted_until,
        count_max=count_max,
    )
    return [JobRow(*row) for row in rows]


def walker(tx: Transaction, statement: Statement, after_field: str, **values: Any) -> Walk:
    """Make a walk along numbers of a statement that lists them after one."""

    async def walk(after: int, count_max: int) -> list[int]:
        rows = await tx.fetch(statement, **values, **{after_field: after}, count_max=count_max)
        return [row[0] for row in rows]

    return walk


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
        statement = _VIEWS["walk_leased_tasks"]
    elif state == TaskState.DEAD_LETTERED:
        statement = _VIEWS["walk_dead_tasks"]
    else:
        statement = _VIEWS["walk_tasks"]

    async def read(task_indexes: list[int], count_max: int) -> list[TaskRow]:
        return await _read_tasks(tx, job_id, task_indexes, state=state, count_max=count_max)

    return await fill_page(
        walker(tx, statement, "after_index", job_id=job_id),
        read,
        lambda task: task.task_index,
        after=after,
        page_size=page_size,
    )


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
        _VIEWS["read_tasks"],
        job_id=job_id,
        task_indexes=task_indexes,
        state=state,
        count_max=count_max,
    )
    return [TaskRow(*row) for row in rows]


async def list_attempts(
    tx: Transaction, task_id: TaskId, *, after: int = -1, page_size: int
) -> list[AttemptRow]:
    """List the attempts of a task, the oldest first."""
    rows = await tx.fetch(
        _VIEWS["list_attempts"],
        job_id=task_id.job_id,
        task_index=task_id.task_index,
        after_attempt=after,
        count_max=page_size,
    )
    return [AttemptRow(*row) for row in rows]


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
        _VIEWS["list_results"], job_id=job_id, after_index=after, count_max=page_size
    )
    return [ResultRow(*row) for row in rows]


async def read_line(tx: Transaction, queue: str | None) -> Line:
    """Read what stands between a queue's tasks and a worker; placed work has no queue."""
    row = await tx.fetch_one(_VIEWS["read_line"], queue=queue, silent_after=SILENT_AFTER)
    assert row is not None
    return Line(*row)


async def count_ahead(tx: Transaction, job: JobRow, task: TaskRow) -> int:
    """Count the tasks that would be claimed before this one, up to AHEAD_MAX."""
    row = await tx.fetch_one(
        _VIEWS["count_ahead"],
        queue=job.queue,
        urgency=-job.priority,
        eligible_at=task.eligible_at,
        job_id=task.job_id,
        task_index=task.task_index,
        count_max=AHEAD_MAX,
    )
    assert row is not None
    count: int = row[0]
    return count
