"""The rows of new jobs: their ids, and all that stores them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.store.database import Database, Transaction
from holdfast.store.statements import load_statements

_JOBS = load_statements("work/jobs")


class AllocatedId(NamedTuple):
    """An id for a job, and the time."""

    job_id: int
    now: datetime


async def allocate_job_ids(
    database: Database, count: int, policies_version: int | None = None
) -> list[AllocatedId]:
    """Give out ids for good, whatever becomes of the jobs; none, if policies have changed."""
    rows = await database.fetch(
        _JOBS["allocate_job_ids"], count=count, policies_version=policies_version
    )
    return list(map(AllocatedId._make, rows))


class NewJob(NamedTuple):
    """The row of a job, named as its columns are; spec and labels are JSON texts."""

    job_id: int | None  # None where the id is given out as it is stored
    name: str | None
    type: str
    owner: str
    queue: str | None
    priority: int
    spec: str
    labels: str
    parent_job_id: int | None
    replay_of: int | None
    correlation_id: str
    trace_id: str | None
    trace_parent: str | None
    idempotency_key: str | None
    # What came under the key, where it is not the spec.
    asked: str | None
    shown: bool
    fan_out: bool
    max_task_failures: int | None
    num_tasks: int
    graph_id: int | None
    compensates_job_id: int | None
    unmet: int
    # Who has submitted it; None for its owner.
    actor: str | None = None


@dataclass(slots=True)
class TasksInLine:
    """All tasks of new jobs, job by job, that are ready as they are stored.

    A list for each column, since there may be very many. Jobs are named by their positions, from 1
    on, and each says for how long its tasks may stand in line.
    """

    scheduling_timeouts: list[timedelta | None] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    task_indexes: list[int] = field(default_factory=list)
    placed: list[bool] = field(default_factory=list)
    inputs: list[str | None] = field(default_factory=list)

    def add(
        self,
        inputs: Sequence[str | None],
        *,
        is_placed: bool,
        scheduling_timeout: timedelta | None,
    ) -> None:
        """Add the tasks of the next job."""
        self.scheduling_timeouts.append(scheduling_timeout)
        count = len(inputs)
        self.positions += [len(self.scheduling_timeouts)] * count
        self.task_indexes += range(count)
        self.placed += [is_placed] * count
        self.inputs += inputs


async def insert_jobs(
    tx: Transaction, jobs: Sequence[NewJob], *, now: datetime, tasks: TasksInLine | None = None
) -> set[int]:
    """Store jobs, at least one, and their tasks if they are given.

    Returns the ids of those whose key was not seen before.
    """
    row = await tx.fetch_one(
        _JOBS["store_jobs"], **new_job_columns(jobs, tasks), **given_to_store(at=now)
    )
    assert row is not None
    return {job_id for job_id in row[0] if job_id is not None}


class StoredJobs(NamedTuple):
    """The ids of jobs that were stored, each or None if its key was seen before, and when.

    Without any id, nothing was stored: policies have changed, or there is no partition yet.
    """

    job_ids: list[int | None]
    stored_at: datetime


async def store_jobs_at_once(
    database: Database,
    jobs: Sequence[NewJob],
    tasks: TasksInLine,
    *,
    policies_version: int,
    partitions_end: int,
) -> StoredJobs:
    """Store jobs without ids, at least one, and their tasks, in a transaction of its own."""
    given = given_to_store(policies_version=policies_version, partitions_end=partitions_end)
    return StoredJobs._make(
        await database.call(_JOBS["store_jobs"], **new_job_columns(jobs, tasks), **given)
    )


def new_job_columns(jobs: Sequence[NewJob], tasks: TasksInLine | None) -> dict[str, Any]:
    """Put new jobs and their tasks into columns."""
    columns: dict[str, Any] = dict(zip(NewJob._fields, zip(*jobs, strict=True), strict=True))
    return columns | {
        "scheduling_timeout": None if tasks is None else tasks.scheduling_timeouts,
        "positions": None if tasks is None else tasks.positions,
        "task_indexes": None if tasks is None else tasks.task_indexes,
        "placed": None if tasks is None else tasks.placed,
        "inputs": None if tasks is None else tasks.inputs,
    }


def given_to_store(
    *,
    at: datetime | None = None,
    policies_version: int | None = None,
    partitions_end: int | None = None,
) -> dict[str, Any]:
    """Name what jobs are stored under: a time, or what has to hold still."""
    return {"at": at, "policies_version": policies_version, "partitions_end": partitions_end}
