"""A job that was submitted, as its submitter holds it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from holdfast.client.both import LoopThread, both, both_stream
from holdfast.client.deadline import Deadline
from holdfast.client.functions.kinds import Kind
from holdfast.client.outcome import ANYTHING, decode_result, open_result, open_results, read_results
from holdfast.client.pages import read_pages
from holdfast.client.progress import count_live, show_progress
from holdfast.errors import Invalid
from holdfast.model.work.ids import check_index
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import ENDED_STATES, JobState, parse_state
from holdfast.wire.events import EventListQuery
from holdfast.wire.graphs import JobGraph
from holdfast.wire.requests import JobQuery, ResultQuery
from holdfast.wire.status import Event, EventPage, JobStatus, TaskResult

if TYPE_CHECKING:
    from holdfast.client.client import Client

Answer = TypeVar("Answer")
PROGRESS_SECONDS = 0.5
STRAGGLERS_SECONDS = 0.1
# Why a job cannot be sent as a value, to those who try.
NOT_A_VALUE = (
    "its result takes the position of an argument, or of a part of its lists, tuples and dicts; "
    "nowhere else, and not among inputs"
)


class Job(Generic[Answer]):
    """One job. Methods block; each has an `.aio` to be awaited."""

    def __init__(
        self, client: "Client", job_id: str | None, num_tasks: int, *, returns: Kind = ANYTHING
    ) -> None:
        self._client = client
        self._id = job_id
        self.num_tasks = num_tasks
        self._returns = returns

    def __repr__(self) -> str:
        return f"Job({self._id or 'not submitted'}, {self.num_tasks} tasks)"

    def __reduce__(self) -> NoReturn:
        raise Invalid("job", f"cannot be pickled: {NOT_A_VALUE}")

    @property
    def id(self) -> str:
        """What the server calls it; a job of a graph has no id before the end of its block."""
        if self._id is None:
            problem = "has no id: its graph is submitted at the end of the block, if that ends well"
            raise Invalid("job", problem)
        return self._id

    @property
    def server(self) -> str:
        """The server that has it."""
        return self._client.server

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
        return await self._wait(Deadline(timeout), progress=progress)

    @both
    async def result(
        self, timeout: float | None = None, *, task_index: int | None = None
    ) -> Answer:
        """Wait for a task, the only one by default; give what it returned, or raise its error."""
        if task_index is None and self.num_tasks > 1:
            problem = f"job {self.id} has {self.num_tasks} tasks; name one, or use results()"
            raise Invalid("task_index", problem)
        task_id = f"{self.id}.{check_index(task_index or 0, 'task_index')}"
        deadline = Deadline(timeout)
        while True:
            query = ResultQuery(deadline.wait_ms())
            path = f"/api/tasks/{task_id}/result"
            found = await self._client.read(path, TaskResult, query=query)
            if found.is_finished:
                value: Answer = open_result(found, self._returns, self._client.codec)
                return value
            if deadline.is_over:
                deadline.check(*await self._describe_task(task_id))

    @both
    async def results(self, timeout: float | None = None) -> list[Answer]:
        """Wait for the whole job and give every task's result in order; raises the first error."""
        return open_results(await self._outcomes(timeout), self._returns, self._client.codec)

    @both
    async def outcomes(self, timeout: float | None = None) -> list[TaskResult]:
        """Wait for the whole job and give how each task ended, without raising."""
        codec, found = self._client.codec, await self._outcomes(timeout)
        return found if codec is None else [decode_result(codec, each) for each in found]

    @both
    def cancel(
        self,
        mode: CancelMode = "soft",
        reason: str = "cancelled",
        *,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, bool]:
        """Stop the job: softly, with its grace, or hard; False if it had ended or was cancelled."""
        jobs = self._client.jobs
        return jobs.cancel.aio(self.id, mode, reason, idempotency_key=idempotency_key)

    @both_stream
    def logs(
        self,
        task_index: int = 0,
        *,
        attempt: int | None = None,
        follow: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Read the output of a task's latest attempt; `follow` goes on until it has ended.

        `tail` begins with so many lines before the end.
        """
        task_id = f"{self.id}.{check_index(task_index, 'task_index')}"
        return self._client.read_log(task_id, attempt=attempt, follow=follow, tail=tail)

    @both
    async def events(self) -> list[Event]:
        """List what happened to the job and its tasks."""
        path, read = f"/api/jobs/{self.id}/events", self._client.read
        pages = read_pages(read, path, EventPage, query=EventListQuery())
        return [event async for page in pages for event in page.events]

    @both
    def graph(self) -> Coroutine[Any, Any, JobGraph]:
        """Read the jobs that it depends on and those that depend on it, directly or not."""
        return self._client.jobs.graph.aio(self.id)

    async def _read(self, wait_ms: int) -> JobStatus:
        query = JobQuery(wait_ms=wait_ms)
        return await self._client.read(f"/api/jobs/{self.id}", JobStatus, query=query)

    async def _wait(self, deadline: Deadline, *, progress: bool = False) -> JobStatus:
        with show_progress(self.id, self.num_tasks, wanted=progress) as show:
            pause = None if show is None else PROGRESS_SECONDS
            while True:
                status = await self._read(deadline.wait_ms(pause))
                if show is not None:
                    show(status)
                if parse_state(status.state) in ENDED_STATES:
                    return status
                if deadline.is_over:
                    deadline.check(*await self._describe(status))

    async def _describe(self, status: JobStatus) -> tuple[str, str | None]:
        """Tell how a job stands that has not ended, and what it waits for."""
        state = parse_state(status.state)
        standing = f"job {self.id} is still {state.name.lower()}"
        if state != JobState.PENDING:
            return standing, f"{count_live(status)} of {self.num_tasks} tasks have not ended"
        return standing, (await self._describe_task(f"{self.id}.0"))[1]

    async def _describe_task(self, task_id: str) -> tuple[str, str | None]:
        """Tell how a task stands, and what it waits for; of a retry, also what went wrong."""
        task = await self._client.tasks.get.aio(task_id)
        standing = f"task {task_id} is still {parse_state(task.state).name.lower()}"
        if task.worker_id and task.pending_reason is None:
            return standing, f"on worker {task.worker_id}"
        error = (task.error or "").strip().partition("\n")[0]
        last = f"attempt {task.current_attempt_id} ended with: {error}" if error else None
        return standing, "; ".join(filter(None, (task.pending_reason, last))) or None

    async def _outcomes(self, timeout: float | None) -> list[TaskResult]:
        deadline = Deadline(timeout)
        status = await self._wait(deadline)
        while live := count_live(status):
            # The job's end was decided before every task of it had been stopped.
            deadline.check(f"job {self.id} has ended, but {live} of its tasks have not")
            await asyncio.sleep(STRAGGLERS_SECONDS)
            status = await self._read(0)
        return [
            result
            async for page in read_results(self._client.read, self.id)
            for result in page.results
        ]
