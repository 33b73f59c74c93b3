"""A job that was submitted, as its submitter holds it."""

import base64
import builtins
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast import errors
from holdfast.client.both import LoopThread, both
from holdfast.client.progress import show_progress
from holdfast.errors import TaskFailed
from holdfast.model.outcomes import CancelMode
from holdfast.wire.requests import CancelRequest, JobQuery, PageQuery, ResultQuery
from holdfast.wire.status import Changed, Event, JobStatus, ResultPage, TaskResult

if TYPE_CHECKING:
    from holdfast.client.client import Client

Answer = TypeVar("Answer")
WAIT_SECONDS = 10.0
PROGRESS_SECONDS = 0.5
RESULTS_PER_PAGE = 500
_ENDED = ("SUCCEEDED", "FAILED", "KILLED", "WORKER_FAILED", "UNSCHEDULABLE", "DEAD_LETTERED")


class Job(Generic[Answer]):
    """One job. Methods block; each has an `.aio` to be awaited."""

    def __init__(self, client: "Client", job_id: str, num_tasks: int) -> None:
        self._client = client
        self.id = job_id
        self.num_tasks = num_tasks

    def __repr__(self) -> str:
        return f"Job({self.id}, {self.num_tasks} tasks)"

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        return self._client.loop_thread

    @both
    async def status(self) -> JobStatus:
        """Read how the job stands."""
        return await self._read(0)

    @both
    async def wait(self, timeout: float | None = None, *, progress: bool = False) -> JobStatus:
        """Wait for the job's end, however it ends; TimeoutError if it takes longer."""
        return await self._wait(timeout, progress=progress)

    @both
    async def result(self, timeout: float | None = None) -> Answer:
        """Wait for the job's first task and give what its function returned, or raise its error."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS if ends_at is None else ends_at - time.monotonic()
            query = ResultQuery(int(min(max(left, 0.0), WAIT_SECONDS) * 1000))
            path = f"/api/tasks/{self.id}.0/result"
            found = await self._client.read(path, TaskResult, query=query)
            if found.is_finished:
                return open_result(found)  # type: ignore[no-any-return]
            if ends_at is not None and time.monotonic() >= ends_at:
                raise TimeoutError(f"task {self.id}.0 is {found.state} after {timeout:g} s")

    @both
    async def results(self, timeout: float | None = None) -> list[Answer]:
        """Wait for the whole job and give every task's result in order; raises the first error."""
        found = await self._outcomes(timeout)
        return [open_result(result) for result in found]

    @both
    async def outcomes(self, timeout: float | None = None) -> list[TaskResult]:
        """Wait for the whole job and give how each task ended, without raising."""
        return await self._outcomes(timeout)

    @both
    async def cancel(self, mode: CancelMode = "soft", reason: str = "cancelled") -> bool:
        """Stop the job: softly, with its grace, or hard; False if it had ended or was cancelled."""
        path = f"/api/jobs/{self.id}:cancel"
        answer = await self._client.change(path, CancelRequest(mode, reason), Changed)
        return answer.changed

    def logs(self, task_index: int = 0, *, follow: bool = False) -> Iterator[bytes]:
        """Read the output of a task's latest attempt; `follow` goes on until it has ended."""
        return self._client.logs(f"{self.id}.{task_index}", follow=follow)

    @both
    async def events(self) -> list[Event]:
        """List what happened to the job and its tasks."""
        return await self._client.list_events(self.id)

    async def _read(self, wait_seconds: float) -> JobStatus:
        query = JobQuery(wait_ms=int(wait_seconds * 1000))
        return await self._client.read(f"/api/jobs/{self.id}", JobStatus, query=query)

    async def _wait(self, timeout: float | None, *, progress: bool) -> JobStatus:
        ends_at = None if timeout is None else time.monotonic() + timeout
        pause = PROGRESS_SECONDS if progress else WAIT_SECONDS
        with show_progress(self.num_tasks, shown=progress) as show:
            while True:
                left = pause if ends_at is None else ends_at - time.monotonic()
                status = await self._read(min(max(left, 0.0), pause))
                show(status)
                if status.state.removeprefix("JOB_STATE_") in _ENDED:
                    return status
                if ends_at is not None and time.monotonic() >= ends_at:
                    raise TimeoutError(f"job {self.id} is {status.state} after {timeout:g} s")

    async def _outcomes(self, timeout: float | None) -> list[TaskResult]:
        await self._wait(timeout, progress=False)
        return [result async for result in self._pages()]

    async def _pages(self) -> AsyncIterator[TaskResult]:
        token: str | None = None
        while True:
            query = PageQuery(RESULTS_PER_PAGE, token)
            page = await self._client.read(f"/api/jobs/{self.id}/results", ResultPage, query=query)
            for result in page.results:
                yield result
            token = page.next_page_token
            if token is None:
                return


def open_result(found: TaskResult) -> Any:
    """Give what a task's function returned, or raise what it raised."""
    if found.state != "TASK_STATE_SUCCEEDED":
        raise rebuild_failure(found)
    value = msgspec.json.decode(found.result)
    if found.pickled and value is not None:
        import cloudpickle

        return cloudpickle.loads(base64.b64decode(value))
    return value


def rebuild_failure(found: TaskResult) -> TaskFailed:
    """Make an exception that is both a TaskFailed and of the class that the task raised."""
    name = found.error_class or ""
    raised = getattr(errors, name, None) or getattr(builtins, name, None)
    arguments = (found.task_id, found.state.removeprefix("TASK_STATE_"), found.error)
    if isinstance(raised, type) and issubclass(raised, Exception):
        try:
            mixed: type[TaskFailed] = type(name, (TaskFailed, raised), {})
            return mixed(*arguments)
        except TypeError:
            # A class with a memory layout of its own cannot be mixed in: OSError and its like.
            return TaskFailed(*arguments)
    return TaskFailed(*arguments)
