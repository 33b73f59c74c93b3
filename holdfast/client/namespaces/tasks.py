"""`client.tasks`: any task of the server, by its id."""

from collections.abc import Coroutine
from typing import Any

from holdfast.client.both import both
from holdfast.client.deadline import Deadline
from holdfast.client.namespaces.namespace import Namespace
from holdfast.client.outcome import decode_result
from holdfast.client.pages import COUNT_MAX, read_some
from holdfast.model.work.ids import parse_job_id, parse_task_id
from holdfast.model.work.outcomes import CancelMode
from holdfast.wire.events import EventListQuery
from holdfast.wire.explanations import ExplainQuery, Explanation
from holdfast.wire.requests import LogQuery, ResultQuery, TaskListQuery
from holdfast.wire.status import (
    EventPage,
    LogChunk,
    TaskPage,
    TaskResult,
    TaskStatus,
)


class Tasks(Namespace):
    """Tasks, by their ids, such as 4182.3."""

    @both
    def get(self, task_id: str) -> Coroutine[Any, Any, TaskStatus]:
        """Read a task with all its attempts."""
        return self._client.read(_path(task_id), TaskStatus)

    @both
    async def result(self, task_id: str, *, wait: float = 0.0) -> TaskResult:
        """Read how a task stands and what it returned.

        With a wait: once it has finished, or so many seconds are over.
        """
        path, deadline = f"{_path(task_id)}/result", Deadline(wait)
        while True:
            query = ResultQuery(deadline.wait_ms())
            result = await self._client.read(path, TaskResult, query=query)
            if deadline.is_over or result.is_finished:
                codec = self._client.codec
                return result if codec is None else decode_result(codec, result)

    @both
    def explain(
        self,
        task_id: str,
        *,
        cpu: float | None = None,
        memory: int | str | None = None,
        disk: int | str | None = None,
        gpu: int | None = None,
        without_worker: str | None = None,
    ) -> Coroutine[Any, Any, Explanation]:
        """Ask why a task stands where it stands.

        And what if each task of its job asked for these amounts, or a worker were not there: the
        answer is in `what_if`, and nothing is changed.
        """
        # A text needs its unit.
        memory, disk = (f"{s}B" if isinstance(s, int) else s for s in (memory, disk))
        query = ExplainQuery(cpu, memory, disk, gpu, without_worker)
        return self._client.read(f"{_path(task_id)}/explain", Explanation, query=query)

    @both
    def cancel(
        self,
        task_id: str,
        mode: CancelMode = "soft",
        reason: str = "cancelled",
        *,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, bool]:
        """Cancel a task; False if it had finished or was cancelled before."""
        return self._cancel(_path(task_id), mode, reason, idempotency_key=idempotency_key)

    @both
    def read_log(
        self,
        task_id: str,
        *,
        attempt: int | None = None,
        offset: int = 0,
        follow: bool = False,
        line: int | None = None,
        tail: int | None = None,
    ) -> Coroutine[Any, Any, LogChunk]:
        """Read a stretch of an attempt's output; to follow is to wait for more for a while.

        It begins at an offset, with a line, counted from 1, or with so many lines before the end.
        """
        query = LogQuery(attempt, offset, follow, line=line, tail=tail)
        return self._client.read(f"{_path(task_id)}/logs", LogChunk, query=query)

    @both
    def events(
        self, task_id: str, *, type: str | None = None, count_max: int = COUNT_MAX
    ) -> Coroutine[Any, Any, EventPage]:
        """List what happened to a task."""
        path, query = f"{_path(task_id)}/events", EventListQuery(type)
        return read_some(self._client.read, path, EventPage, query=query, count_max=count_max)

    @both
    def list(
        self,
        job_id: str | int,
        *,
        state: str | None = None,
        task_from: int = 0,
        count_max: int = COUNT_MAX,
    ) -> Coroutine[Any, Any, TaskPage]:
        """List tasks of a job, by index, from one on."""
        path = f"/api/jobs/{parse_job_id(str(job_id))}/tasks"
        query = TaskListQuery(state, task_from)
        return read_some(self._client.read, path, TaskPage, query=query, count_max=count_max)


def _path(task_id: str) -> str:
    return f"/api/tasks/{parse_task_id(task_id)}"
