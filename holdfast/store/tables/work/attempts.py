"""The table of ended attempts, and what attempts have used."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import attempt_columns, fence_columns, id_columns

_TASKS = load_statements("work/tasks")
_LEASES = load_statements("work/leases")
_ATTEMPTS = load_statements("work/attempts")
_CLUSTER = load_statements("workers/cluster")


class Success(NamedTuple):
    """An attempt whose code ran and succeeded, and what it returned, a JSON text."""

    fence: Fence
    result: str | None


class Succeeded(NamedTuple):
    """Which successes are recorded, by their positions from 1 on: for how long and where each ran.

    Lists are None instead of empty.
    """

    positions: list[int] | None
    seconds: list[float] | None
    worker_ids: list[str] | None
    # What stands in line again, since slots were freed; without a task, a whole queue.
    opened_queues: list[str] | None
    opened_job_ids: list[int | None] | None
    opened_indexes: list[int | None] | None


def success_columns(successes: Sequence[Success]) -> dict[str, list[Any]]:
    """Spread successes into arrays."""
    return {
        **fence_columns([success[0] for success in successes]),
        "results": [success[1] for success in successes],
    }


async def succeed_attempts(tx: Transaction, successes: Sequence[Success]) -> Succeeded:
    """Lock tasks and end the attempts among them that run under a live lease."""
    row = await tx.fetch_one(_TASKS["succeed_attempts"], **success_columns(successes))
    assert row is not None
    return Succeeded._make(row)


class EndedAttempt(NamedTuple):
    """How an open attempt ends otherwise, and what that makes of its task."""

    task_id: TaskId
    state: TaskState
    # Whether the task stays where its attempt ended.
    finished: bool
    failure_count: int
    preemption_count: int
    actor: str
    cause: str | None
    exit_code: int | None
    error: str | None
    error_class: str | None
    stage: str | None
    reported: bool
    released: bool


class AttemptRun(NamedTuple):
    """An attempt that has ended, and for how many seconds it ran; None if it had not begun."""

    job_id: int
    task_index: int
    ran: float | None
    worker_id: str
    state: int
    # The slots that were freed, if any: in which buckets, and how many of each.
    held: str | None
    slots: int | None


async def end_attempts(tx: Transaction, ended: Sequence[EndedAttempt]) -> list[AttemptRun]:
    """End open attempts of locked tasks; one that is not released keeps its lease as ending."""
    rows = await tx.fetch(
        _TASKS["end_attempts"],
        **id_columns([attempt.task_id for attempt in ended]),
        states=[attempt.state for attempt in ended],
        finished=[attempt.finished for attempt in ended],
        failure_counts=[attempt.failure_count for attempt in ended],
        preemption_counts=[attempt.preemption_count for attempt in ended],
        actors=[attempt.actor for attempt in ended],
        causes=[attempt.cause for attempt in ended],
        exit_codes=[attempt.exit_code for attempt in ended],
        errors=[attempt.error for attempt in ended],
        error_classes=[attempt.error_class for attempt in ended],
        stages=[attempt.stage for attempt in ended],
        reported=[attempt.reported for attempt in ended],
        released=[attempt.released for attempt in ended],
    )
    return list(map(AttemptRun._make, rows))


async def find_ended_attempts(tx: Transaction, fences: Sequence[Fence]) -> dict[Fence, int]:
    """Find attempts whose end their worker has reported, and the state in which they ended."""
    rows = await tx.fetch(_LEASES["find_ended_attempts"], **fence_columns(fences))
    return {Fence(TaskId(row[0], row[1]), row[2], row[3]): row[4] for row in rows}


async def list_last_error_classes(
    tx: Transaction, task_ids: Sequence[TaskId], count_max: int
) -> dict[TaskId, list[str]]:
    """List the error classes of each task's last attempts, the latest first; some are empty."""
    rows = await tx.fetch(
        _ATTEMPTS["list_last_error_classes"], **id_columns(task_ids), count_max=count_max
    )
    return {TaskId(job_id, task_index): classes for job_id, task_index, classes in rows}


class FoundAttempt(NamedTuple):
    """An attempt's number, and whether it may still write."""

    attempt: int
    is_open: bool


async def find_attempt(
    tx: Transaction, task_id: TaskId, attempt: int | None
) -> FoundAttempt | None:
    """Find an attempt of a task by its number, or the latest."""
    row = await tx.fetch_one(
        _ATTEMPTS["find_attempt"],
        job_id=task_id.job_id,
        task_index=task_id.task_index,
        attempt=attempt,
    )
    return None if row is None else FoundAttempt._make(row)


class AttemptUsage(NamedTuple):
    """What an attempt was given and has used, and what its build took: JSON texts."""

    task_id: TaskId
    attempt: int
    ports: str | None = None
    devices: str | None = None
    usage: str | None = None
    build: str | None = None
    # Whether the usage is that of the whole attempt, which has ended.
    is_final: bool = False


async def keep_usage(tx: Transaction, used: Sequence[AttemptUsage]) -> None:
    """Note what attempts have used; what is final already stays."""
    await tx.fetch(
        _CLUSTER["keep_usage"],
        **attempt_columns([(item.task_id, item.attempt) for item in used]),
        ports=[item.ports for item in used],
        devices=[item.devices for item in used],
        usages=[item.usage for item in used],
        builds=[item.build for item in used],
        finals=[item.is_final for item in used],
    )
