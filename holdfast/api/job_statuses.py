"""Jobs as they are shown: what a row says of one, what its tasks add up to, what is new of one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.api import convert
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState
from holdfast.rules.placement.scheduler import Reason
from holdfast.store.reads.work.causes import Cause
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.reads.work.totals import JobTotals
from holdfast.store.tables.submitting.new_jobs import NewJob
from holdfast.wire.raw import raw
from holdfast.wire.status import BuildMetrics, JobCause, JobStatus, ResourceUsage, TaskStatus
from holdfast.wire.terms import JobTerms

_MESSAGE_ORDER = (
    "running",
    "building",
    "assigned",
    "pending",
    "succeeded",
    "failed",
    "killed",
    "worker_failed",
    "unschedulable",
    "dead_lettered",
)


def job_message(job: JobRow) -> str:
    """Sum up a job in a line: its tasks in total, then those in each state that has any."""
    parts = [f"{job.num_tasks} total"]
    for state in _MESSAGE_ORDER:
        count = getattr(job, state)
        if count:
            parts.append(f"{count} {state.replace('_', ' ')}")
    return "Tasks: " + ", ".join(parts)


def _counts(job: JobRow) -> dict[str, Any]:
    return {f"tasks_{state}": getattr(job, state) for state in _MESSAGE_ORDER}


def job_status(
    job: JobRow,
    *,
    tasks: list[TaskStatus] | None = None,
    totals: JobTotals | None = None,
    reasons: Sequence[Reason] = (),
    is_new: bool | None = None,
    causes: Sequence[Cause] = (),
    terms: JobTerms | None = None,
) -> JobStatus:
    """Tell everything about a job; what its tasks add up to, where it was asked for.

    `reasons` are what its pending tasks wait for.
    """
    spec = None if job.spec is None else msgspec.json.decode(job.spec)
    return JobStatus(
        job_id=str(job.job_id),
        state=convert.job_state(job.state),
        name=job.name,
        type=job.type,
        owner=job.owner,
        queue=job.queue,
        priority=job.priority,
        labels=msgspec.json.decode(job.labels),
        exit_code=job.exit_code,
        error=_error(job, causes),
        submitted_at_ms=convert.to_ms(job.submitted_at),
        started_at_ms=convert.ms(job.started_at),
        finished_at_ms=convert.ms(job.finished_at),
        parent_job_id=convert.id_text(job.parent_job_id),
        replay_of=convert.id_text(job.replay_of),
        graph_id=convert.id_text(job.graph_id),
        compensates_job_id=convert.id_text(job.compensates_job_id),
        compensated_by=convert.id_text(job.compensated_by),
        is_compensated=job.is_compensated,
        unmet_dependencies=job.unmet,
        released_at_ms=convert.ms(job.released_at),
        correlation_id=job.correlation_id,
        trace_id=job.trace_id,
        idempotency_key=job.idempotency_key,
        cancel_mode=job.cancel_mode,
        cancel_reason=job.cancel_reason,
        cancelled_by=next((each.actor for each in causes[:1] if each.kind == "cancel"), None),
        causes=[_cause(each) for each in causes],
        status_message=job_message(job),
        pending_reason="; ".join(reason.message for reason in reasons) or None,
        terms=terms,
        num_tasks=job.num_tasks,
        **_counts(job),
        spec=spec,
        is_gang=None if spec is None else "coscheduling" in spec,
        tasks=tasks,
        **({} if totals is None else _totals(totals)),
        is_new=is_new,
    )


def _totals(totals: JobTotals) -> dict[str, Any]:
    return {
        "failure_count": totals.failure_count,
        "preemption_count": totals.preemption_count,
        "ports": msgspec.json.decode(totals.ports),
        "resource_usage": _usage(totals),
        "build_metrics": _build(totals),
        "serialized_result": raw(totals.result),
    }


def _error(job: JobRow, causes: Sequence[Cause]) -> str | None:
    """Say what went wrong; of a job that ended without an error of its own, what ended it."""
    if job.error is None and job.finished_at is not None and causes:
        return causes[0].message
    return job.error


def _cause(cause: Cause) -> JobCause:
    task_id = None
    if cause.job_id is not None and cause.task_index is not None:
        task_id = str(TaskId(cause.job_id, cause.task_index))
    return JobCause(
        kind=cause.kind,
        message=cause.message,
        job_id=convert.id_text(cause.job_id),
        task_id=task_id,
        actor=cause.actor,
    )


def new_job_status(job: NewJob, submitted_at: datetime) -> JobStatus:
    """Tell of a job that has just been stored, from what was stored; without its spec, as in lists.

    All of its tasks are pending, whatever has become of them by the time this is read.
    """
    return JobStatus(
        job_id=str(job.job_id),
        state=convert.job_state(JobState.PENDING),
        name=job.name or "",
        type=job.type,
        owner=job.owner,
        queue=job.queue,
        priority=job.priority,
        labels=msgspec.json.decode(job.labels),
        submitted_at_ms=convert.to_ms(submitted_at),
        parent_job_id=convert.id_text(job.parent_job_id),
        replay_of=convert.id_text(job.replay_of),
        graph_id=convert.id_text(job.graph_id),
        compensates_job_id=convert.id_text(job.compensates_job_id),
        unmet_dependencies=job.unmet,
        correlation_id=job.correlation_id,
        trace_id=job.trace_id,
        idempotency_key=job.idempotency_key,
        status_message=f"Tasks: {job.num_tasks} total, {job.num_tasks} pending",
        num_tasks=job.num_tasks,
        tasks_pending=job.num_tasks,
        is_new=True,
    )


def _usage(totals: JobTotals) -> ResourceUsage | None:
    usage = ResourceUsage(
        cpu_seconds=totals.cpu_seconds,
        memory_peak_bytes=totals.memory_peak_bytes,
        processes_max=totals.processes_max,
        limits=totals.limits,
    )
    return None if usage == ResourceUsage() else usage


def _build(totals: JobTotals) -> BuildMetrics | None:
    build = BuildMetrics(
        fetch_ms=totals.fetch_ms,
        unpack_ms=totals.unpack_ms,
        bytes=totals.bytes,
        bundle_cached=totals.bundle_cached,
        environment_ms=totals.environment_ms,
        environment_cached=totals.environment_cached,
    )
    return None if build == BuildMetrics() else build
