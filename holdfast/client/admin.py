"""What operators ask of a server beyond their own jobs; each function blocks."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from holdfast.client.client import Client
from holdfast.model.outcomes import CancelMode
from holdfast.wire.requests import (
    CancelRequest,
    DeadLetterFilter,
    DeadLetterListQuery,
    DiscardRequest,
    EventListQuery,
    JobListQuery,
    JobQuery,
    JobRequest,
    LogQuery,
    Nothing,
    ReplayRequest,
    ResultQuery,
    TaskListQuery,
)
from holdfast.wire.status import (
    Changed,
    DeadLetter,
    DeadLetterPage,
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
)

Answer = TypeVar("Answer")
Page = TypeVar("Page", JobPage, TaskPage, EventPage, DeadLetterPage)
PAGE_MAX = 1000


def submit_spec(client: Client, request: JobRequest) -> SubmittedJob:
    """Submit a job as it is described; sent twice under way, it is still one job."""
    if request.idempotency_key is None:
        request = msgspec.structs.replace(request, idempotency_key=f"auto-{uuid4()}")
    return change(client, "/api/jobs", request, SubmittedJob)


def get_job(client: Client, job_id: str, *, wait_seconds: float = 0.0) -> JobStatus:
    """Read a job; with a wait, once it has ended or the time is over."""
    query = JobQuery(wait_ms=int(wait_seconds * 1000))
    return read(client, f"/api/jobs/{job_id}", JobStatus, query)


def list_jobs(client: Client, wanted: JobListQuery, count_max: int) -> JobPage:
    """List jobs, newest first."""
    return _gather(client, "/api/jobs", JobPage, _asking(wanted, count_max))


def list_tasks(client: Client, job_id: str, wanted: TaskListQuery, count_max: int) -> TaskPage:
    """List tasks of a job, by index."""
    return _gather(client, f"/api/jobs/{job_id}/tasks", TaskPage, _asking(wanted, count_max))


def get_task(client: Client, task_id: str) -> TaskStatus:
    """Read a task with all its attempts."""
    return read(client, f"/api/tasks/{task_id}", TaskStatus)


def get_result(client: Client, task_id: str, *, wait_seconds: float = 0.0) -> TaskResult:
    """Read how a task stands; with a wait, once it has finished or the time is over."""
    query = ResultQuery(int(wait_seconds * 1000))
    return read(client, f"/api/tasks/{task_id}/result", TaskResult, query)


def explain_task(client: Client, task_id: str) -> Explanation:
    """Ask why a task stands where it stands."""
    return read(client, f"/api/tasks/{task_id}/explain", Explanation)
