"""The table of tasks: locked, inserted, and moved from state to state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from holdfast.model.work.attempts import LockedTask
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.columns import fence_columns, id_columns, new_tokens

_TASKS = load_statements("work/tasks")


async def lock_tasks(tx: Transaction, task_ids: Iterable[TaskId]) -> dict[TaskId, LockedTask]:
    """Lock tasks in the order of their ids; those that do not exist are left out."""
    rows = await tx.fetch(_TASKS["lock_tasks"], **id_columns(sorted(set(task_ids))))
    return {TaskId(row[0], row[1]): LockedTask._make(row) for row in rows}


async def lock_tasks_of_jobs(tx: Transaction, job_ids: Iterable[int]) -> list[LockedTask]:
    """Lock all tasks of small jobs."""
    rows = await tx.fetch(_TASKS["lock_tasks_of_jobs"], job_ids=sorted(set(job_ids)))
    return list(map(LockedTask._make, rows))


async def lock_live_tasks(
    tx: Transaction, job_id: int, *, first_index: int, end_index: int
) -> list[LockedTask]:
    """Lock some tasks of a job that have not ended; those that somebody holds are left out."""
    rows = await tx.fetch(
        _TASKS["lock_live_tasks"], job_id=job_id, first_index=first_index, end_index=end_index
    )
    return list(map(LockedTask._make, rows))


async def has_unstopped_task(
    tx: Transaction, job_id: int, *, first_index: int, end_index: int
) -> bool:
    """Tell whether a sweep has left a task out."""
    row = await tx.fetch_one(
        _TASKS["find_unstopped_task"], job_id=job_id, first_index=first_index, end_index=end_index
    )
    return row is not None


@dataclass(slots=True)
class NewTasks:
    """Tasks to be stored, a list per column: there may be very many."""

    job_ids: list[int] = field(default_factory=list)
    task_indexes: list[int] = field(default_factory=list)
    placed: list[bool] = field(default_factory=list)
    inputs: list[str | None] = field(default_factory=list)

    def columns(self) -> dict[str, list[Any]]:
        """Name the arrays."""
        return {
            "job_ids": self.job_ids,
            "task_indexes": self.task_indexes,
            "placed": self.placed,
            "inputs": self.inputs,
        }


async def insert_tasks(
    tx: Transaction, tasks: NewTasks, *, eligible_at: Sequence[datetime], now: datetime
) -> None:
    """Store tasks that are not put in line yet."""
    await tx.fetch(_TASKS["insert_tasks"], **tasks.columns(), eligible_at=eligible_at, now=now)


class RepeatedInput(NamedTuple):
    """An input of a repeat, and the task of an earlier job that it is compared with."""

    repeat: int
    job_id: int
    task_index: int
    text: str


async def find_other_inputs(tx: Transaction, inputs: Sequence[RepeatedInput]) -> set[int]:
    """Tell which repeats have other inputs than the earlier jobs, however these are written."""
    rows = await tx.fetch(
        _TASKS["find_other_inputs"],
        repeats=[given.repeat for given in inputs],
        job_ids=[given.job_id for given in inputs],
        task_indexes=[given.task_index for given in inputs],
        inputs=[given.text for given in inputs],
    )
    return {row[0] for row in rows}


async def delete_hidden_tasks(tx: Transaction, job_id: int, *, batch_max: int) -> int:
    """Delete tasks of a job that has never been shown; returns how many."""
    rows = await tx.fetch(_TASKS["delete_hidden_tasks"], job_id=job_id, batch_max=batch_max)
    return len(rows)


class Assignment(NamedTuple):
    """A task, the worker that claims it, the terms of the lease, and the book it takes from."""

    task_id: TaskId
    worker_id: str
    duration: timedelta
    run_timeout: timedelta | None
    claim_key: str | None
    book: str | None = None
    # The buckets of limits whose slots it takes, and how many of each.
    held: str | None = None
    slots: int | None = None


class NewLease(NamedTuple):
    """A lease that has just begun."""

    job_id: int
    task_index: int
    lease_token: UUID
    expires_at: datetime


async def assign_tasks(
    tx: Transaction, assignments: Sequence[Assignment], *, starting: bool = False
) -> list[NewLease]:
    """Move locked tasks to ASSIGNED, each with a lease; those of lost workers are left out.

    Those that start as they are claimed go through ASSIGNED to RUNNING.
    """
    rows = await tx.fetch(
        _TASKS["assign_running" if starting else "assign_tasks"],
        **id_columns([assignment.task_id for assignment in assignments]),
        tokens=new_tokens(len(assignments)),
        worker_ids=[assignment.worker_id for assignment in assignments],
        durations=[assignment.duration for assignment in assignments],
        run_timeouts=[assignment.run_timeout for assignment in assignments],
        claim_keys=[assignment.claim_key for assignment in assignments],
        books=[assignment.book for assignment in assignments],
        held=[assignment.held for assignment in assignments],
        slots=[assignment.slots for assignment in assignments],
    )
    return list(map(NewLease._make, rows))


NO_TIME = timedelta()


class StartedTask(NamedTuple):
    """A task that has been brought forward, and from which state."""

    job_id: int
    task_index: int
    lease_token: UUID
    before: int


async def start_building(tx: Transaction, fences: Sequence[Fence]) -> list[StartedTask]:
    """Lock tasks and move the open attempts among them to BUILDING; fences come sorted."""
    rows = await tx.fetch(_TASKS["start_building"], **fence_columns(fences))
    return list(map(StartedTask._make, rows))


async def start_running(
    tx: Transaction, fences: Sequence[Fence], runs: Mapping[Fence, timedelta] = MappingProxyType({})
) -> list[StartedTask]:
    """Lock tasks and move the open attempts among them to RUNNING; fences come sorted.

    `runs` is for how long some of them have run by now.
    """
    rows = await tx.fetch(
        _TASKS["start_running"],
        **fence_columns(fences),
        runs=[runs.get(fence, NO_TIME) for fence in fences],
    )
    return list(map(StartedTask._make, rows))


class RetriedTask(NamedTuple):
    """A task whose attempt has ended and that is to be tried again."""

    task_id: TaskId
    delay: timedelta
    free_loss_count: int
    cause: str | None


async def retry_tasks(tx: Transaction, retried: Sequence[RetriedTask]) -> None:
    """Move locked tasks back to PENDING, to wait until they are due."""
    await tx.fetch(
        _TASKS["retry_tasks"],
        **id_columns([task.task_id for task in retried]),
        delays=[task.delay for task in retried],
        free_loss_counts=[task.free_loss_count for task in retried],
        causes=[task.cause for task in retried],
    )


async def kill_pending_tasks(
    tx: Transaction, task_ids: Sequence[TaskId], *, actor: str, cause: str
) -> None:
    """Kill locked tasks that have not begun."""
    await tx.fetch(_TASKS["kill_pending_tasks"], **id_columns(task_ids), actor=actor, cause=cause)


async def give_up_scheduling(tx: Transaction, causes: Mapping[TaskId, str]) -> None:
    """Move locked tasks that nobody took in time to UNSCHEDULABLE, each with the cause."""
    ids = id_columns(list(causes))
    await tx.fetch(_TASKS["give_up_scheduling"], **ids, causes=list(causes.values()))


class InputsSize(NamedTuple):
    """How many tasks of a job would run again, and the bytes of their inputs."""

    num_tasks: int
    bytes: int


async def measure_inputs(tx: Transaction, job_id: int, *, only_unsuccessful: bool) -> InputsSize:
    """Count the inputs of a job."""
    row = await tx.fetch_one(
        _TASKS["measure_inputs"], job_id=job_id, only_unsuccessful=only_unsuccessful
    )
    return InputsSize._make(row or (0, 0))


class TaskInput(NamedTuple):
    """One task's input, a JSON text."""

    task_index: int
    text: str


async def read_inputs(
    tx: Transaction, job_id: int, *, only_unsuccessful: bool, after_index: int, batch_max: int
) -> list[TaskInput]:
    """Read the inputs of a job, a page at a time."""
    rows = await tx.fetch(
        _TASKS["read_inputs"],
        job_id=job_id,
        only_unsuccessful=only_unsuccessful,
        after_index=after_index,
        batch_max=batch_max,
    )
    return list(map(TaskInput._make, rows))
