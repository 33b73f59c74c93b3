"""Compensations: which comes next, what it is as a job, and what it is told."""

import copy
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.model.ids import TaskId
from holdfast.model.order import ResultPlace
from holdfast.model.spec import Entrypoint, JobSpec, Limits
from holdfast.model.states import JobState, TaskState
from holdfast.model.undo import UndoRecord

RETRIES_MIN = 3
KEY_PREFIX = "holdfast:"  # of idempotency keys that no user may take
ERROR_LENGTH_MAX = 16_000
_SUFFIX = ".undo"
# The brackets of a record, its ids, its state, and an error in which every letter is escaped.
_FRAME_BYTES = 512 + 6 * ERROR_LENGTH_MAX


class OpenUndo(NamedTuple):
    """A job that is to be undone, and what stands in the way."""

    job_id: int
    is_submitted: bool
    has_failed: bool
    finished_at: datetime
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
    # Jobs that ended at the same moment: a job has a higher id than those it depends on.
    return max(waiting, key=lambda u: (u.has_failed, u.finished_at, u.job_id), default=None)


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


def put_result(
    entrypoint: Entrypoint, place: ResultPlace, results: Sequence[str | None], *, is_list: bool
) -> Entrypoint:
    """Put what another job returned where it stands among the arguments of a call."""
    texts = [text or "null" for text in results]
    arguments: Any = copy.deepcopy({"args": entrypoint.args, "kwargs": entrypoint.kwargs})
    holder = arguments
    for step in place.path[:-1]:
        holder = holder[step]
    holder[place.path[-1]] = _raw(f"[{','.join(texts)}]" if is_list else texts[0])
    return msgspec.structs.replace(entrypoint, **arguments)


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


def record_of_task(job_id: int, task: UndoneTask, entrypoint: Entrypoint, *, bytes_max: int) -> str:
    """Tell of one task of a job with inputs."""
    record = UndoRecord(
        str(job_id),
        TaskState(task.state).name,
        str(TaskId(job_id, task.task_index)),
        input=_raw(task.input),
        error=_cut(task.error),
        is_pickled=entrypoint.pickle is not None,
    )
    record = msgspec.structs.replace(record, truncated=task.is_cut)
    return _fill(record, entrypoint, task.result, outputs=task.outputs, bytes_max=bytes_max)


def record_of_replicas(
    job_id: int,
    state: int,
    error: str | None,
    *,
    tasks: Sequence[UndoneTask],
    entrypoint: Entrypoint,
    bytes_max: int,
) -> str:
    """Tell of all the replicas of a job at once: one result, or a list of them."""
    is_pickled = entrypoint.pickle is not None
    record = UndoRecord(str(job_id), JobState(state).name, error=_cut(error), is_pickled=is_pickled)
    results = [task.result or "null" for task in tasks]
    result = results[0] if len(results) == 1 else f"[{','.join(results)}]"
    outputs = [text for task in tasks for text in task.outputs]
    record = msgspec.structs.replace(record, truncated=any(task.is_cut for task in tasks))
    return _fill(record, entrypoint, result, outputs=outputs, bytes_max=bytes_max)


def _fill(
    record: UndoRecord,
    entrypoint: Entrypoint,
    result: str | None,
    *,
    outputs: Sequence[str],
    bytes_max: int,
) -> str:
    """Add what there is room for: the outputs, the arguments, the result."""
    parts: list[dict[str, object]] = [
        {"outputs": [_raw(text) for text in outputs]} if outputs else {},
        {
            name: value
            for name in ("args", "kwargs", "pickle")
            if (value := getattr(entrypoint, name))
        },
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
