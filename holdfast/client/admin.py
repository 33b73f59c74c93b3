"""What operators ask of a server beyond their own jobs; each function blocks."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from holdfast.client.client import FOLLOW_MS, Client
from holdfast.errors import Unavailable
from holdfast.model.outcomes import CancelMode
from holdfast.wire.requests import (
    CancelRequest,
    DeadLetterFilter,
    DeadLetterListQuery,
    DiscardRequest,
    EventListQuery,
    EventStreamQuery,
    JobListQuery,
    JobQuery,
    JobRequest,
    LogQuery,
    Nothing,
    PageQuery,
    ReplayRequest,
    ResultQuery,
    TaskListQuery,
)
from holdfast.wire.status import (
    Changed,
    DeadLetter,
    DeadLetterPage,
    Event,
    EventPage,
    Explanation,
    JobPage,
    JobStatus,
    LogChunk,
    QueueList,
    ReplayAnswer,
    SubmittedJob,
    TaskPage,
    TaskResult,
    TaskStatus,
    WorkerList,
    WorkerStatus,
)

Answer = TypeVar("Answer")
Page = TypeVar("Page", JobPage, TaskPage, EventPage, DeadLetterPage, WorkerList)
PAGE_MAX = 1000
EMPTY_PAGES_MAX = 10_000
RECONNECTS_MAX = 10
_SAFE = "/:@"


def submit_spec(client: Client, request: JobRequest) -> SubmittedJob:
    """Submit a job as it is described; sent twice under way, it is still one job."""
    if request.idempotency_key is None:
        request = msgspec.structs.replace(request, idempotency_key=f"auto-{uuid4()}")
    return _change(client, "/api/jobs", request, SubmittedJob)


def get_job(client: Client, job_id: str, *, wait_seconds: float = 0.0) -> JobStatus:
    """Read a job; with a wait, once it has ended or the time is over."""
    query = JobQuery(wait_ms=int(wait_seconds * 1000))
    return _read(client, f"/api/jobs/{job_id}", JobStatus, query)


def list_jobs(client: Client, wanted: JobListQuery, count_max: int) -> JobPage:
    """List jobs, newest first."""
    return _gather(client, "/api/jobs", JobPage(jobs=[]), wanted, count_max=count_max)


def list_tasks(client: Client, job_id: str, wanted: TaskListQuery, *, count_max: int) -> TaskPage:
    """List tasks of a job, by index."""
    path = f"/api/jobs/{job_id}/tasks"
    return _gather(client, path, TaskPage(tasks=[]), wanted, count_max=count_max)


def get_task(client: Client, task_id: str) -> TaskStatus:
    """Read a task with all its attempts."""
    return _read(client, f"/api/tasks/{task_id}", TaskStatus)


def get_result(client: Client, task_id: str, *, wait_seconds: float = 0.0) -> TaskResult:
    """Read how a task stands; with a wait, once it has finished or the time is over."""
    query = ResultQuery(int(wait_seconds * 1000))
    return _read(client, f"/api/tasks/{task_id}/result", TaskResult, query)


def explain_task(client: Client, task_id: str) -> Explanation:
    """Ask why a task stands where it stands."""
    return _read(client, f"/api/tasks/{task_id}/explain", Explanation)


def cancel(client: Client, an_id: str, mode: CancelMode, *, reason: str) -> bool:
    """Cancel a job or a task, by its id; False if it had ended or was cancelled before."""
    kind = "tasks" if "." in an_id else "jobs"
    body = CancelRequest(mode, reason)
    return _change(client, f"/api/{kind}/{an_id}:cancel", body, Changed).changed


def read_log(
    client: Client, task_id: str, *, attempt: int | None, offset: int, follow: bool
) -> LogChunk:
    """Read a stretch of an attempt's output; to follow is to wait for more for a while."""
    query = LogQuery(attempt, offset, follow, FOLLOW_MS)
    return _read(client, f"/api/tasks/{task_id}/logs", LogChunk, query)


def list_events(client: Client, an_id: str, wanted: EventListQuery, *, count_max: int) -> EventPage:
    """List what happened to a job with its tasks, or to one task."""
    kind = "tasks" if "." in an_id else "jobs"
    path = f"/api/{kind}/{an_id}/events"
    return _gather(client, path, EventPage(events=[]), wanted, count_max=count_max)


def follow_events(client: Client, wanted: EventStreamQuery) -> Iterator[Event]:
    """Follow events; a connection that breaks is taken up again where it broke."""
    failures = 0
    while True:
        try:
            stream = client.follow_lines("/api/events/stream", wanted)
            for line in stream:
                ...
        except Unavailable:
            ...
