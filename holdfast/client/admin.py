"""What operators ask of a server beyond their own jobs; each function blocks."""

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from holdfast.client.client import FOLLOW_MS, Client, submit_request, submit_requests
from holdfast.client.context import Lease
from holdfast.model.outcomes import CancelMode
from holdfast.wire.endpoints import (
    LIST_PATH,
    REGISTER_PATH,
    REMOVE_PATH,
    EndpointListQuery,
    EndpointPage,
    EndpointRegisterRequest,
    EndpointRemoveRequest,
    EndpointStatus,
)
from holdfast.wire.graphs import JobGraph
from holdfast.wire.lists import RerunAnswer
from holdfast.wire.requests import (
    CancelRequest,
    DeadLetterFilter,
    DeadLetterListQuery,
    DiscardRequest,
    EventListQuery,
    JobBatchRequest,
    JobListQuery,
    JobQuery,
    JobRequest,
    LogQuery,
    Nothing,
    PageQuery,
    ReplayRequest,
    RerunRequest,
    ResultQuery,
    TaskListQuery,
)
from holdfast.wire.status import (
    Changed,
    DeadLetter,
    DeadLetterPage,
    EventPage,
    Explanation,
    JobBatchAnswer,
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
Page = TypeVar("Page", JobPage, TaskPage, EventPage, DeadLetterPage, WorkerList, EndpointPage)
PAGE_MAX = 1000
_TOKEN = "next_page_token"
_SAFE = "/:@"


def submit_spec(client: Client, request: JobRequest) -> SubmittedJob:
    """Submit a job as it is described; sent twice under way, it is still one job."""
    return client.loop_thread.run(submit_request(client, request))


def get_job(client: Client, job_id: str, *, wait_seconds: float = 0.0) -> JobStatus:
    """Read a job; with a wait, once it has ended or the time is over."""
    query = JobQuery(wait_ms=int(wait_seconds * 1000))
    return _read(client, f"/api/jobs/{job_id}", JobStatus, query=query)


def get_graph(client: Client, job_id: str) -> JobGraph:
    """Read the jobs that a job depends on and that depend on it."""
    return _read(client, f"/api/jobs/{job_id}/graph", JobGraph)


def submit_graph(client: Client, batch: JobBatchRequest) -> JobBatchAnswer:
    """Submit jobs in one call, all or none; sent twice under way, they are still the same jobs."""
    return JobBatchAnswer(client.loop_thread.run(submit_requests(client, batch.specs)))


def list_jobs(client: Client, wanted: JobListQuery, count_max: int) -> JobPage:
    """List jobs, newest first."""
    return _gather(client, "/api/jobs", JobPage(jobs=[]), wanted=wanted, count_max=count_max)


def list_tasks(client: Client, job_id: str, wanted: TaskListQuery, *, count_max: int) -> TaskPage:
    """List tasks of a job, by index."""
    path = f"/api/jobs/{job_id}/tasks"
    return _gather(client, path, TaskPage(tasks=[]), wanted=wanted, count_max=count_max)


def get_task(client: Client, task_id: str) -> TaskStatus:
    """Read a task with all its attempts."""
    return _read(client, f"/api/tasks/{task_id}", TaskStatus)


def get_result(client: Client, task_id: str, *, wait_seconds: float = 0.0) -> TaskResult:
    """Read how a task stands; with a wait, once it has finished or the time is over."""
    query = ResultQuery(int(wait_seconds * 1000))
    return _read(client, f"/api/tasks/{task_id}/result", TaskResult, query=query)


def explain_task(client: Client, task_id: str) -> Explanation:
    """Ask why a task stands where it stands."""
    return _read(client, f"/api/tasks/{task_id}/explain", Explanation)


def cancel(
    client: Client,
    an_id: str,
    mode: CancelMode,
    *,
    reason: str,
    idempotency_key: str | None = None,
) -> bool:
    """Cancel a job or a task, by its id; False if it had ended or was cancelled before."""
    kind = "tasks" if "." in an_id else "jobs"
    body = CancelRequest(mode, reason, idempotency_key or f"auto-{uuid4()}")
    return _change(client, f"/api/{kind}/{an_id}:cancel", body, returns=Changed).changed


def rerun_job(client: Client, job_id: str, request: RerunRequest) -> RerunAnswer:
    """Submit a job again; asked twice under way, it is still one new job."""
    if request.idempotency_key is None and not request.dry_run:
        request = msgspec.structs.replace(request, idempotency_key=f"auto-{uuid4()}")
    return _change(client, f"/api/jobs/{job_id}:rerun", request, returns=RerunAnswer)


def read_log(
    client: Client, task_id: str, *, attempt: int | None, offset: int, follow: bool
) -> LogChunk:
    """Read a stretch of an attempt's output; to follow is to wait for more for a while."""
    query = LogQuery(attempt, offset, follow, FOLLOW_MS)
    return _read(client, f"/api/tasks/{task_id}/logs", LogChunk, query=query)


def list_events(client: Client, an_id: str, wanted: EventListQuery, *, count_max: int) -> EventPage:
    """List what happened to a job with its tasks, or to one task."""
    kind = "tasks" if "." in an_id else "jobs"
    path = f"/api/{kind}/{an_id}/events"
    return _gather(client, path, EventPage(events=[]), wanted=wanted, count_max=count_max)


def list_queues(client: Client) -> QueueList:
    """List queues with what waits in them."""
    return _read(client, "/api/queues", QueueList)


def pause_queue(client: Client, queue: str) -> None:
    """Hand out nothing more from a queue."""
    _change(client, f"/api/queues/{quote(queue, _SAFE)}:pause", Nothing(), returns=Changed)


def resume_queue(client: Client, queue: str) -> None:
    """Hand out tasks of a queue again."""
    _change(client, f"/api/queues/{quote(queue, _SAFE)}:resume", Nothing(), returns=Changed)


def list_workers(client: Client, count_max: int) -> WorkerList:
    """List workers, the living first."""
    return _gather(
        client, "/api/workers", WorkerList(workers=[]), wanted=PageQuery(), count_max=count_max
    )


def drain_worker(client: Client, worker_id: str) -> None:
    """Ask a worker to finish what it has, take nothing more, and leave."""
    _change(client, f"/api/workers/{quote(worker_id, _SAFE)}:drain", Nothing(), returns=Changed)


def list_dead_letters(
    client: Client, wanted: DeadLetterListQuery, count_max: int
) -> DeadLetterPage:
    """List dead letters, by id."""
    found = DeadLetterPage(dead_letters=[])
    return _gather(client, "/api/dead-letters", found, wanted=wanted, count_max=count_max)


def get_dead_letter(client: Client, task_id: str) -> DeadLetter:
    """Read one dead letter with its input."""
    return _read(client, f"/api/dead-letters/{task_id}", DeadLetter)


def replay_dead_letters(
    client: Client,
    which: Sequence[str] | DeadLetterFilter,
    *,
    dry_run: bool = False,
    idempotency_key: str | None = None,
    rebind_outputs: bool = False,
) -> ReplayAnswer:
    """Submit dead letters again: those with these ids, or all that a filter matches."""
    # A replay whose answer got lost can be sent again, and is still one replay.
    key = None if dry_run else idempotency_key or f"auto-{uuid4()}"
    request = ReplayRequest(
        filter=which if isinstance(which, DeadLetterFilter) else None,
        task_ids=None if isinstance(which, DeadLetterFilter) else list(which),
        dry_run=dry_run,
        idempotency_key=key,
        rebind_outputs=rebind_outputs,
    )
    return _change(client, "/api/dead-letters:replay", request, returns=ReplayAnswer)


def discard_dead_letters(
    client: Client, task_ids: Sequence[str], *, idempotency_key: str | None = None
) -> None:
    """Settle dead letters without running them again."""
    request = DiscardRequest(list(task_ids), idempotency_key or f"auto-{uuid4()}")
    _change(client, "/api/dead-letters:discard", request, returns=Changed)


def register_endpoint(client: Client, lease: Lease, name: str, *, address: str) -> EndpointStatus:
    """Publish an address in the name of a running attempt."""
    body = EndpointRegisterRequest(*lease, name, address)
    return _change(client, REGISTER_PATH, body, returns=EndpointStatus)


def remove_endpoint(client: Client, lease: Lease, name: str) -> bool:
    """Take back what a running attempt has published; False if it has nothing of that name."""
    body = EndpointRemoveRequest(*lease, name)
    return _change(client, REMOVE_PATH, body, returns=Changed).changed


def list_endpoints(client: Client, prefix: str, count_max: int) -> EndpointPage:
    """List what running attempts have published, by name."""
    wanted, found = EndpointListQuery(prefix or None), EndpointPage(endpoints=[])
    return _gather(client, LIST_PATH, found, wanted=wanted, count_max=count_max)


def _read(client: Client, path: str, returns: type[Answer], *, query: Any = None) -> Answer:
    return client.loop_thread.run(client.read(path, returns, query=query))


def _change(client: Client, path: str, body: Any, *, returns: type[Answer]) -> Answer:
    return client.loop_thread.run(client.change(path, body, returns))


def _gather(client: Client, path: str, found: Page, *, wanted: Any, count_max: int) -> Page:
    """Read pages until there are as many as wanted; a short page is not always the last one."""
    [rows] = [getattr(found, name) for name in found.__struct_fields__ if name != _TOKEN]
    token: str | None = None
    while len(rows) < count_max:
        query = msgspec.structs.replace(
            wanted, page_size=min(count_max - len(rows), PAGE_MAX), page_token=token
        )
        page = _read(client, path, type(found), query=query)
        [more] = [getattr(page, name) for name in page.__struct_fields__ if name != _TOKEN]
        rows += more
        token = page.next_page_token
        if token is None:
            break
    return msgspec.structs.replace(found, next_page_token=token)
