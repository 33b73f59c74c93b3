"""Rows as the answers that people and programs read: the one module where the two shapes meet."""

from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import AttributeValue, Capacity
from holdfast.operations.submitting.resume import Resumed
from holdfast.store.reads.limits.queues import QueueRow
from holdfast.store.reads.output import events
from holdfast.store.reads.work.attempts import AccountRow, AttemptOnWorker, AttemptRow
from holdfast.store.reads.work.dead_letters import DeadLetterRow
from holdfast.store.reads.work.signals import ParkedRow
from holdfast.store.reads.work.tasks import ResultRow, TaskRow
from holdfast.store.reads.workers.workers import HEALTH, WorkerLoad, WorkerRow
from holdfast.store.tables.upkeep.samples import WorkerEnds as Ends
from holdfast.wire.dead_letters import DeadLetter
from holdfast.wire.graphs import ResumedJob
from holdfast.wire.raw import raw
from holdfast.wire.signals import AwaitedSignal
from holdfast.wire.status import (
    Amounts,
    BuildMetrics,
    Event,
    QueueStatus,
    ResourceUsage,
    TaskAttempt,
    TaskResult,
    TaskStatus,
    WorkerEnds,
    WorkerResources,
    WorkerStatus,
)

RENEWAL_MAX = timedelta(seconds=30)
_EPOCH = datetime.fromtimestamp(0, UTC)
_NO_ACCOUNT = AccountRow()
_CPU_DIGITS = 3
_Shape = TypeVar("_Shape")
NO_ATTEMPT = -1


class _Progress(msgspec.Struct):
    fraction: float | None = None
    message: str | None = None


def to_ms(moment: datetime) -> int:
    """Count the milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def ms(moment: datetime | None) -> int | None:
    """Count the milliseconds since 1970 up to a moment, if it is known."""
    return None if moment is None else to_ms(moment)


def say_time(moment: datetime) -> str:
    """Write a moment for people, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def task_state(state: int) -> str:
    """Name a task's or an attempt's state as the protocol does."""
    return f"TASK_STATE_{TaskState(state).name}"


def job_state(state: int) -> str:
    """Name a job's state as the protocol does."""
    return f"JOB_STATE_{TaskState(state).name}"


def id_text(job_id: int | None) -> str | None:
    """Write the id of a job, if there is one."""
    return None if job_id is None else str(job_id)


def current_attempt(task: TaskRow) -> int:
    """Number the attempt that is under way, or else the last one; -1 before the first."""
    if task.is_open:
        assert task.lease_attempt is not None
        return task.lease_attempt
    return NO_ATTEMPT if task.last_attempt is None else task.last_attempt


def task_error(task: TaskRow) -> str | None:
    """Say what went wrong last with a task, as far as it is not under way again or well."""
    if task.is_open or task.state == TaskState.SUCCEEDED:
        return None
    if task.state == TaskState.PENDING:
        return task.error
    return (task.error if _ended_there(task) else None) or task.cause


def _ended_there(task: TaskRow) -> bool:
    """Tell a task that ended with its last attempt from one that ended while it waited."""
    return task.finished_at is not None and task.last_attempt == task.attempt


def current_attempt_of(task: TaskRow) -> AttemptOnWorker:
    """Say where the current attempt is or was; a task that waits for its retry has no worker."""
    worker_id = task.last_worker_id if _ended_there(task) else None
    if task.is_open:
        worker_id = task.lease_worker_id
    return AttemptOnWorker(task.task_index, current_attempt(task), worker_id)


def task_status(
    task: TaskRow,
    *,
    now: datetime,
    pending_reason: str | None = None,
    account: AccountRow = _NO_ACCOUNT,
    attempts: list[TaskAttempt] | None = None,
    parked: ParkedRow | None = None,
) -> TaskStatus:
    """Tell everything about a task; one that waits for its retry has no worker, ports, devices."""
    ended_there = _ended_there(task)
    worker_id = current_attempt_of(task).worker_id
    started_at = task.last_started_at if ended_there else None
    if task.is_open:
        started_at = task.started_at
    has_exit_code = ended_there or task.state == TaskState.PENDING
    progress = _progress(task)
    return TaskStatus(
        task_id=str(task.id),
        job_id=str(task.job_id),
        task_index=task.task_index,
        state=task_state(task.state),
        worker_id=worker_id,
        worker_address=account.worker_address,
        exit_code=task.exit_code if has_exit_code else None,
        error=task_error(task) if parked is None else None,
        submitted_at_ms=to_ms(task.submitted_at),
        started_at_ms=ms(started_at),
        finished_at_ms=ms(task.finished_at),
        eligible_at_ms=to_ms(task.eligible_at),
        ports=_decode(account.ports if worker_id else None, dict[str, int]) or {},
        devices=_decode(account.devices if worker_id else None, list[str]) or [],
        resource_usage=_decode(account.usage, ResourceUsage),
        build_metrics=_decode(account.build, BuildMetrics),
        current_attempt_id=current_attempt(task),
        failure_count=task.failure_count,
        preemption_count=task.preemption_count,
        progress=progress.fraction,
        status_message=progress.message,
        pending_reason=pending_reason,
        waits_for=None if parked is None else _awaited(parked),
        is_orphaned=is_orphaned(task, now),
        attempts=attempts,
    )


def _awaited(parked: ParkedRow) -> AwaitedSignal:
    return AwaitedSignal(name=parked.name, since_ms=to_ms(parked.since), until_ms=ms(parked.until))


def _progress(task: TaskRow) -> _Progress:
    """Read the last progress of the current attempt; user code may have noted something else.

    Of a task that has finished only what was said last: it is no part of the way any more.
    """
    waits = task.state == TaskState.PENDING
    if waits or task.progress_attempt != current_attempt(task):
        return _Progress()
    progress = _decode(task.progress, _Progress) or _Progress()
    return progress if task.finished_at is None else _Progress(message=progress.message)


def _decode(text: str | None, shape: type[_Shape]) -> _Shape | None:
    """Read what a worker has said of its own; what has another shape counts as not said."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.ValidationError:
        return None


def is_orphaned(task: TaskRow, now: datetime) -> bool:
    """Tell whether the lease of an open attempt has missed two renewals."""
    if not task.is_open or task.lease_expires_at is None or task.lease_duration is None:
        return False
    first = min(task.lease_duration / 2, RENEWAL_MAX)
    second = first + min((task.lease_duration - first) / 2, RENEWAL_MAX)
    return task.lease_expires_at - now < task.lease_duration - second


def task_attempt(attempt: AttemptRow, task: TaskRow, now: datetime) -> TaskAttempt:
    """Tell everything about an attempt."""
    is_current = task.is_open and attempt.attempt == task.lease_attempt
    return TaskAttempt(
        attempt_id=attempt.attempt,
        worker_id=attempt.worker_id,
        state=task_state(attempt.state),
        created_at_ms=to_ms(attempt.created_at),
        started_at_ms=ms(attempt.started_at),
        finished_at_ms=ms(attempt.finished_at),
        released_at_ms=ms(attempt.released_at),
        exit_code=attempt.exit_code,
        error=attempt.error,
        error_class=attempt.error_class,
        stage=attempt.stage,
        is_worker_failure=attempt.is_worker_failure,
        lease_expires_at_ms=to_ms(attempt.lease_expires_at),
        is_orphaned=is_current and is_orphaned(task, now),
        ports=_decode(attempt.ports, dict[str, int]) or {},
        devices=_decode(attempt.devices, list[str]) or [],
        usage=_decode(attempt.usage, ResourceUsage),
        build=_decode(attempt.build, BuildMetrics),
    )


def task_result(task_id: str, found: ResultRow) -> TaskResult:
    """Tell how a task stands and what it returned."""
    ended_badly = found.is_finished and found.state != TaskState.SUCCEEDED
    return TaskResult(
        task_id=task_id,
        state=task_state(found.state),
        result=raw(found.result),
        error=(found.error or found.cause) if ended_badly else None,
        error_class=found.error_class if ended_badly else None,
        exit_code=found.exit_code,
        is_finished=found.is_finished,
        pickled=found.is_pickled,
    )


def event(row: events.Event) -> Event:
    """Tell what happened."""
    return Event(
        id=row.id,
        job_id=str(row.job_id),
        task_index=row.task_index,
        attempt=row.attempt,
        seq=row.seq,
        type=row.type,
        ts=row.ts,
        actor=row.actor,
        correlation_id=row.correlation_id,
        trace_id=row.trace_id,
        cause=row.cause,
        payload=raw(row.payload),
        version=row.version,
    )


def worker_status(worker: WorkerRow, load: WorkerLoad, ends: Ends) -> WorkerStatus:
    """Tell who a worker is, whether it lives and what it holds."""
    attributes: dict[str, AttributeValue] = msgspec.json.decode(worker.attributes)
    return WorkerStatus(
        worker_id=worker.worker_id,
        name=worker.name,
        host=worker.host,
        queues=worker.queues,
        health=HEALTH[worker.illness],
        registered_at_ms=to_ms(worker.registered_at),
        last_seen_at_ms=ms(worker.last_seen_at),
        lost_at_ms=ms(worker.lost_at),
        lost_cause=worker.lost_cause,
        replaced_by=worker.replaced_by,
        draining=worker.is_draining,
        running=worker.leases,
        running_tasks=[str(task_id) for task_id in load.task_ids],
        placed=worker.address is not None,
        address=worker.address,
        resources=_resources(worker.capacity, load.used),
        attributes=attributes,
        consecutive_failures=worker.consecutive_failures,
        last_failure=worker.last_failure,
        last_answer_at_ms=ms(worker.answered_at),
        same_process=worker.same_process,
        version=worker.version,
        clock_skew_seconds=worker.clock_skew_seconds,
        ended_last_hour=WorkerEnds(**ends._asdict()),
    )


def _resources(text: str | None, used: Capacity) -> WorkerResources | None:
    if text is None:
        return None
    capacity = msgspec.json.decode(text, type=Capacity)
    # A worker that came back with less than it had may have more booked than there is.
    free = Capacity(
        max(capacity.cpu - used.cpu, 0.0),
        max(capacity.memory - used.memory, 0),
        max(capacity.disk - used.disk, 0),
        max(capacity.gpu - used.gpu, 0),
    )
    return WorkerResources(
        capacity=_amounts(capacity),
        used=_amounts(used),
        free=_amounts(free),
        gpu_model=capacity.gpu_model,
    )


def _amounts(capacity: Capacity) -> Amounts:
    return Amounts(
        cpu=round(capacity.cpu, _CPU_DIGITS),
        memory=capacity.memory,
        disk=capacity.disk,
        gpu=capacity.gpu,
    )


def queue_status(queue: QueueRow, now: datetime) -> QueueStatus:
    """Tell how a queue stands."""
    age = None if queue.oldest_at is None else max((now - queue.oldest_at).total_seconds(), 0.0)
    return QueueStatus(
        queue=queue.queue,
        depth=queue.depth,
        oldest_age_seconds=age,
        waiting=queue.waiting,
        running=queue.running,
        finished_per_second=queue.finished_per_second,
        paused=queue.paused_by is not None,
        paused_by=queue.paused_by,
        workers=queue.workers,
        is_served=queue.is_served,
        never_fits=queue.never_fits,
        gated=queue.gated,
        limited_by=queue.limited_by,
    )


def dead_letter(row: DeadLetterRow) -> DeadLetter:
    """Tell why a task will not be tried again, and what has become of it."""
    return DeadLetter(
        task_id=str(row.id),
        type=row.type,
        queue=row.queue,
        reason_code=row.reason_code,
        stage=row.stage,
        error_class=row.error_class,
        last_error=row.last_error,
        attempts=row.attempts,
        last_owner=row.last_owner,
        last_lease_expires_at=row.last_lease_expires_at,
        correlation_id=row.correlation_id,
        dead_lettered_at=row.dead_lettered_at,
        input=raw(row.input),
        replayed_as=id_text(row.replayed_as),
        replayed_at=row.replayed_at,
        discarded_at=row.discarded_at,
        discarded_by=row.discarded_by,
        input_edited=row.input_edited,
    )


def resumed_job(made: Resumed) -> ResumedJob:
    """Show a job that runs another again; in a dry run it has no id."""
    return ResumedJob(
        replay_of=str(made.replay_of),
        job_id=None if made.job_id is None else str(made.job_id),
        name=made.name,
        num_tasks=made.num_tasks,
    )
