"""Compensations: which comes next, what it is as a job, and what it is told."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.model.submitting.spec import JobSpec, Limits
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState, TaskState
from holdfast.model.work.undo import UndoRecord

RETRIES_MIN = 3
KEY_PREFIX = "holdfast:"  # of idempotency keys that no user may take
ERROR_LENGTH_MAX = 16_000
ERROR_SHORT_LENGTH_MAX = 200
_SUFFIX = ".undo"
# The brackets of a record, its ids, its state, and an error in which every letter is escaped.
_FRAME_BYTES = 512 + 6 * ERROR_LENGTH_MAX


class OpenUndo(NamedTuple):
    """A job that is to be undone, and what stands in the way."""

    job_id: int
    is_submitted: bool
    has_failed: bool
    # Of the event of its end: these grow with time, whatever is done to the clock.
    end_number: int
    is_released: bool
    # Another job of its graph that depends on it may still run, or has not told what it wants.
    is_in_use: bool


def next_undo(undos: Iterable[OpenUndo]) -> OpenUndo | None:
    """Choose the job of a graph that is to be undone next, whether or not it can be yet.

    One after another: what has failed first, then the others in reverse order of their end.
    """
    waiting = list(undos)
    if any(undo.is_submitted for undo in waiting):
        return None
    return max(waiting, key=lambda u: (u.has_failed, u.end_number, u.job_id), default=None)


def can_be_undone(undo: OpenUndo) -> bool:
    """Tell whether nothing that could still use or make its effects is running."""
    return undo.is_released and (undo.has_failed or not undo.is_in_use)


class Compensation(NamedTuple):
    """A compensation, or the replay of a part of one."""

    state: int
    # Of its dead letters, one has not been replayed.
    has_open_letters: bool


def is_compensated(compensations: Sequence[Compensation]) -> bool:
    """Tell whether all there was to undo has been undone, if need be in a replay."""
    return bool(compensations) and all(
        item.state == JobState.SUCCEEDED
        or (item.state == JobState.DEAD_LETTERED and not item.has_open_letters)
        for item in compensations
    )


def undo_key(job_id: int) -> str:
    """Give the idempotency key under which a job's compensation is submitted."""
    return f"{KEY_PREFIX}undo:{job_id}"


def compensation_of(
    spec: JobSpec,
    *,
    job_id: int,
    correlation_id: str,
    trace_id: str | None,
    text_length_max: int,
) -> JobSpec:
    """Describe the job that undoes another: where and how that one ran, but never given up."""
    assert spec.compensation is not None, "nothing is known to undo it"
    kind = spec.type or spec.name or ""
    return JobSpec(
        entrypoint=spec.compensation,
        name=f"undo {spec.name}"[:text_length_max],
        type=kind[: text_length_max - len(_SUFFIX)] + _SUFFIX,
        owner=spec.owner,
        queue=spec.queue,
        environment=spec.environment,
        labels=spec.labels,
        max_retries_failure=max(spec.max_retries_failure or 0, RETRIES_MIN),
        backoff=spec.backoff,
        on_exhausted="dead_letter",
        timeout=spec.timeout,
        on_timeout="fail",
        lease=spec.lease,
        grace=spec.grace,
        priority=spec.priority,
        idempotency_key=undo_key(job_id),
        correlation_id=correlation_id,
        trace_id=trace_id,
        resources=spec.resources,
        constraints=spec.constraints,
        bundle=spec.bundle,
        requirements=spec.requirements,
        verbose_events=spec.verbose_events,
    )


class UndoneTask(NamedTuple):
    """A task that had started, as far as its compensation is concerned; JSON texts."""

    task_index: int
    state: int
    input: str | None
    result: str | None
    error: str | None
    outputs: tuple[str, ...] = ()
    # It may have committed more than these.
    is_cut: bool = False


def record_bytes_max(limits: Limits) -> int:
    """Give the size that a record is kept below: it holds an input, and more."""
    return 2 * limits.input_bytes_max + _FRAME_BYTES


def fit_in(task: UndoneTask, room: int) -> tuple[UndoneTask, int]:
    """Leave out of a task what there is no room for; returns it, and the room that is left.

    The input is always told: without it nobody knows what to undo.
    """
    told = (task.result, task.error, *task.outputs)
    size = sum(len(text.encode()) for text in told if text is not None)
    if size <= room:
        return task, room - size
    error = None if task.error is None else task.error[:ERROR_SHORT_LENGTH_MAX]
    return task._replace(result=None, outputs=(), error=error, is_cut=True), room


def record_of_task(job_id: int, task: UndoneTask, *, is_pickled: bool, bytes_max: int) -> str:
    """Tell of one task of a job with inputs."""
    record = UndoRecord(
        str(job_id),
        TaskState(task.state).name,
        str(TaskId(job_id, task.task_index)),
        input=_raw(task.input),
        error=_cut(task.error),
        is_pickled=is_pickled,
        truncated=task.is_cut,
    )
    return _fill(record, task.result, outputs=task.outputs, bytes_max=bytes_max)


def record_of_replicas(
    job_id: int,
    state: int,
    error: str | None,
    *,
    tasks: Sequence[UndoneTask],
    is_list: bool,
    is_pickled: bool,
    bytes_max: int,
) -> str:
    """Tell of all the replicas of a job at once: one result, or a list of them."""
    record = UndoRecord(
        str(job_id),
        JobState(state).name,
        error=_cut(error),
        is_pickled=is_pickled,
        truncated=any(task.is_cut for task in tasks),
    )
    results = [task.result or "null" for task in tasks]
    result = f"[{','.join(results)}]" if is_list else next(iter(results), None)
    outputs = [text for task in tasks for text in task.outputs]
    return _fill(record, result, outputs=outputs, bytes_max=bytes_max)


def _fill(record: UndoRecord, result: str | None, *, outputs: Sequence[str], bytes_max: int) -> str:
    """Add what there is room for: the outputs, the result."""
    parts: list[dict[str, object]] = [
        {"outputs": [_raw(text) for text in outputs]} if outputs else {},
        {"result": _raw(result)} if result is not None else {},
    ]
    room = bytes_max - _FRAME_BYTES - len(record.input)
    for part in filter(None, parts):
        size = len(msgspec.json.encode(part))
        fits = size <= room
        room -= size if fits else 0
        record = msgspec.structs.replace(record, **(part if fits else {"truncated": True}))
    return msgspec.json.encode(record).decode()


def _raw(text: str | None) -> msgspec.Raw:
    return msgspec.Raw(b"null" if text is None else text.encode())


def _cut(error: str | None) -> str | None:
    return None if error is None else error[:ERROR_LENGTH_MAX]
