"""What a task left behind, opened: the value that its function returned, or the error it raised."""

import builtins
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import cache
from typing import Any

import msgspec

from holdfast import errors
from holdfast.client.codec import PayloadCodec, decode_text
from holdfast.client.functions.kinds import Kind
from holdfast.client.pages import Reads, read_pages
from holdfast.client.pickles import unpickle
from holdfast.errors import Invalid, TaskFailed
from holdfast.wire.requests import PageQuery
from holdfast.wire.status import ResultPage, TaskResult

RESULTS_PER_PAGE = 500
ANYTHING = Kind()
SUCCEEDED = "TASK_STATE_SUCCEEDED"
# How a task fails by itself; another state may be the echo of a sibling's failure.
_OWN_FAULT = ("TASK_STATE_FAILED", "TASK_STATE_DEAD_LETTERED")
# A coroutine cannot raise these: they mean something to whoever awaits it.
_NOT_RAISED = (StopIteration, StopAsyncIteration)


def read_results(read: Reads, job_id: str) -> AsyncGenerator[ResultPage, None]:
    """Read how every task of a job stands and what it returned, page by page."""
    path, query = f"/api/jobs/{job_id}/results", PageQuery(RESULTS_PER_PAGE)
    return read_pages(read, path, ResultPage, query=query)


def decode_result(codec: PayloadCodec | None, found: TaskResult) -> TaskResult:
    """Give the same result, readable. Raises Invalid."""
    text = decode_text(codec, found.result)
    return found if text is found.result else msgspec.structs.replace(found, result=text)


def open_result(found: TaskResult, kind: Kind = ANYTHING, codec: PayloadCodec | None = None) -> Any:
    """Give what a task's function returned, as its annotation has it, or raise what it raised."""
    if found.state != SUCCEEDED:
        raise rebuild_failure(found)
    value = msgspec.json.decode(decode_result(codec, found).result)
    if found.pickled and value is not None:
        return unpickle(value)
    try:
        return kind.read(value)
    except msgspec.ValidationError as error:
        job_id = found.task_id.partition(".")[0]
        problem = (
            f"of task {found.task_id} does not fit the annotation of its function, {kind.shown}: "
            f"{error}; client.job({job_id!r}) gives it as plain JSON"
        )
        raise Invalid("result", problem) from error


def open_results(
    found: Iterable[TaskResult], kind: Kind = ANYTHING, codec: PayloadCodec | None = None
) -> list[Any]:
    """Give what every task returned; raises the first failure, not what followed from it."""
    listed = list(found)
    failed = [result for result in listed if result.state != SUCCEEDED]
    culprits = [result for result in failed if result.state in _OWN_FAULT]
    for result in culprits or failed:
        raise rebuild_failure(result)
    return [open_result(result, kind, codec) for result in listed]


def rebuild_failure(found: TaskResult) -> TaskFailed:
    """Make an exception that is both a TaskFailed and of the class that the task raised."""
    state = found.state.removeprefix("TASK_STATE_")
    plain = TaskFailed(found.task_id, state, found.error)
    mixed = _mix(found.error_class or "")
    return plain if mixed is None else mixed(plain)


@cache
def _mix(name: str) -> Callable[[TaskFailed], TaskFailed] | None:
    raised = getattr(errors, name, None) or getattr(builtins, name, None)
    if not (isinstance(raised, type) and issubclass(raised, Exception)):
        return None
    if issubclass(raised, (*_NOT_RAISED, BaseExceptionGroup)) or issubclass(TaskFailed, raised):
        return None
    # Not by its own constructor: that wants what only the one who raised it knows. And with its
    # text plainly said: a KeyError, for one, would quote it.
    body = {"__init__": _copy, "__str__": Exception.__str__, "__module__": raised.__module__}
    return type(name, (TaskFailed, raised), body)


def _copy(self: TaskFailed, plain: TaskFailed) -> None:
    self.args = plain.args
    self.__dict__.update(plain.__dict__)
