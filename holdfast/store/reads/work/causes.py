"""Why a job did not succeed: from what ended it back to where that began.

A job is ended by a task of its own, by a job that it waited for, with its parent, or by somebody
who cancelled it; the other job has a cause in turn.
"""

from typing import Literal, NamedTuple, cast

from holdfast.model.submitting.order import Condition
from holdfast.model.work.states import ENDED_STATES, JobState, TaskState
from holdfast.rules.dependencies import explain_unmeetable
from holdfast.store.database import Transaction
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.statements import load_statements

_CAUSES = load_statements("reads/work/causes")
CAUSES_MAX = 20
TASKS_EXAMINED_MAX = 10_000
ERROR_LENGTH_MAX = 300
SERVER = "server"
Kind = Literal["task", "dependency", "parent", "cancel"]


class Cause(NamedTuple):
    """What ended a job, in a sentence; the task or the job that did, or who asked for it."""

    kind: Kind
    message: str
    job_id: int | None = None
    task_index: int | None = None
    actor: str | None = None


class _End(NamedTuple):
    name: str
    state: int
    error: str | None
    is_cancelled: bool
    cancel_reason: str | None
    parent_job_id: int | None
    actor: str | None
    depends_on: int | None
    condition: str | None


async def list_causes(tx: Transaction, job: JobRow) -> list[Cause]:
    """List what ended a job, or is about to, and what brought that about; the root comes last."""
    causes: list[Cause] = []
    is_fine = job.finished_at is None or job.state == JobState.SUCCEEDED
    job_id = None if is_fine and job.cancel_mode is None else job.job_id
    while job_id is not None and len(causes) < CAUSES_MAX:
        row = await tx.fetch_one(_CAUSES["read_end"], job_id=job_id)
        if row is None:
            break
        found = await _find_cause(tx, job_id, _End(*row))
        if found is None:
            break
        causes.append(found)
        job_id = found.job_id if found.kind in ("dependency", "parent") else None
    return causes


async def _find_cause(tx: Transaction, job_id: int, end: _End) -> Cause | None:
    has_failed = end.state in ENDED_STATES and end.state != JobState.SUCCEEDED
    if not has_failed and not end.is_cancelled:
        return None
    if end.is_cancelled and end.actor not in (None, SERVER):
        message = f"cancelled by {end.actor}: {end.cancel_reason}"
        return Cause("cancel", message, job_id, actor=end.actor)
    if end.is_cancelled and end.depends_on is not None:
        return await _blame_dependency(tx, end.depends_on, end)
    if end.is_cancelled and end.parent_job_id is not None:
        return await _blame_parent(tx, end.parent_job_id)
    return await _blame_task(tx, job_id)


async def _blame_dependency(tx: Transaction, job_id: int, end: _End) -> Cause:
    condition = cast(Condition, end.condition)
    row = await tx.fetch_one(_CAUSES["read_end"], job_id=job_id)
    if row is None:  # pruned since
        return Cause("dependency", end.cancel_reason or f"it waited for job {job_id}", job_id)
    other = _End(*row)
    message = explain_unmeetable(job_id, condition, other.state, name=other.name)
    return Cause("dependency", message, job_id)


async def _blame_parent(tx: Transaction, job_id: int) -> Cause:
    row = await tx.fetch_one(_CAUSES["read_end"], job_id=job_id)
    if row is None:
        return Cause("parent", f"parent job {job_id} ended", job_id)
    other = _End(*row)
    ended = f"ended {JobState(other.state).name}"
    if other.state not in ENDED_STATES:
        ended = "is being cancelled"
    return Cause("parent", f"parent job {job_id} ({other.name}) {ended}", job_id)


async def _blame_task(tx: Transaction, job_id: int) -> Cause | None:
    row = await tx.fetch_one(
        _CAUSES["find_ended_task"], job_id=job_id, tasks_max=TASKS_EXAMINED_MAX
    )
    if row is None:
        return None
    task_index, state, actor, cause, error = row
    task = f"task {job_id}.{task_index}"
    if state == TaskState.KILLED and actor not in (None, SERVER):
        return Cause("task", f"{task} was killed by {actor}: {cause}", job_id, task_index, actor)
    said = (error or cause or "no error is known").strip()[:ERROR_LENGTH_MAX].partition("\n")[0]
    return Cause("task", f"{task} ended {TaskState(state).name}: {said}", job_id, task_index)
