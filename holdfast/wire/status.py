"""What people and programs read: jobs, tasks, attempts, events, queues, workers, dead letters."""

from datetime import datetime
from typing import Any

import msgspec

from holdfast.model.workers.resources import AttributeValue
from holdfast.wire.raw import absent_is_null
from holdfast.wire.signals import AwaitedSignal
from holdfast.wire.terms import JobTerms


class ResourceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt has used, all of its processes together, and how it was limited."""

    cpu_seconds: float | None = None
    memory_peak_bytes: int | None = None
    processes_max: int | None = None
    limits: str | None = None  # cgroup2, rlimit or none


class BuildMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What it took to get the workspace and the environment of an attempt ready."""

    fetch_ms: float | None = None
    unpack_ms: float | None = None
    bytes: int | None = None
    bundle_cached: bool | None = None
    environment_ms: float | None = None
    environment_cached: bool | None = None


class TaskAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try, on one worker; it is never changed after it has ended."""

    attempt_id: int
    worker_id: str
    state: str
    created_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    released_at_ms: int | None = None
    exit_code: int | None = None
    error: str | None = None
    error_class: str | None = None
    stage: str | None = None
    is_worker_failure: bool = False
    lease_expires_at_ms: int | None = None
    # It has missed two renewals; when it runs out, the attempt is lost.
    is_orphaned: bool = False
    # Of placed work: ports by name and devices that it was given, what it has used (so far).
    ports: dict[str, int] = {}
    devices: list[str] = []
    usage: ResourceUsage | None = None
    build: BuildMetrics | None = None


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One task; worker, times, exit code and error are those of its current attempt."""

    task_id: str
    job_id: str
    task_index: int
    state: str
    worker_id: str | None = None
    # Where the worker is called; one that claims its work has no address.
    worker_address: str | None = None
    exit_code: int | None = None
    error: str | None = None
    submitted_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    eligible_at_ms: int
    ports: dict[str, int] = {}
    devices: list[str] = []
    resource_usage: ResourceUsage | None = None
    build_metrics: BuildMetrics | None = None
    current_attempt_id: int = -1
    failure_count: int = 0
    preemption_count: int = 0
    progress: float | None = None
    status_message: str | None = None
    pending_reason: str | None = None
    waits_for: AwaitedSignal | None = None
    # The lease of its current attempt has missed two renewals.
    is_orphaned: bool = False
    attempts: list[TaskAttempt] | None = None


class JobCause(msgspec.Struct, frozen=True, kw_only=True):
    """What ended a job: a task, a job that it waited for, its parent, or somebody's cancel.

    kind: task, dependency, parent or cancel; `job_id` and `task_id` name it, `actor` is who asked.
    """

    kind: str
    message: str
    job_id: str | None = None
    task_id: str | None = None
    actor: str | None = None


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One job; its state follows from the counts of its tasks' states."""

    job_id: str
    state: str
    name: str
    type: str
    owner: str
    queue: str | None = None
    priority: int = 0
    labels: dict[str, str] = {}
    exit_code: int | None = None
    error: str | None = None
    submitted_at_ms: int
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    parent_job_id: str | None = None
    replay_of: str | None = None
    # The jobs of one graph were submitted in one call; it is named after the first of them.
    graph_id: str | None = None
    # The job that this one undoes.
    compensates_job_id: str | None = None
    # Told where the spec is: the job that undoes this one, and once it has ended, whether it has.
    compensated_by: str | None = None
    is_compensated: bool | None = None
    # How many of the jobs in its `depends_on` it still waits for.
    unmet_dependencies: int = 0
    released_at_ms: int | None = None
    correlation_id: str
    trace_id: str | None = None
    idempotency_key: str | None = None
    cancel_mode: str | None = None
    cancel_reason: str | None = None
    # Who cancelled it; told where the spec is. None if nobody did: see `causes`.
    cancelled_by: str | None = None
    # Told where the spec is, of a job that did not succeed: what ended it, then what brought that
    # about; the root cause comes last.
    causes: list[JobCause] = []
    status_message: str
    # What its pending tasks wait for; known of one job, and not in lists.
    pending_reason: str | None = None
    # Told where the spec is: until when, as the only one of its kind, by which schedule.
    terms: JobTerms | None = None
    num_tasks: int
    tasks_pending: int = 0
    tasks_assigned: int = 0
    tasks_building: int = 0
    tasks_running: int = 0
    tasks_succeeded: int = 0
    tasks_failed: int = 0
    tasks_killed: int = 0
    tasks_worker_failed: int = 0
    tasks_unschedulable: int = 0
    tasks_dead_lettered: int = 0
    spec: dict[str, Any] | None = None
    # Told where the spec is: whether all tasks start together.
    is_gang: bool | None = None
    tasks: list[TaskStatus] | None = None
    # Told to who submits it: False if its idempotency key had been seen before.
    is_new: bool | None = None
    # What its tasks add up to, where asked for: retries; over all attempts, times and bytes summed,
    # peaks the largest, `limits` and what was cached if it is so of all.
    failure_count: int | None = None
    preemption_count: int | None = None
    resource_usage: ResourceUsage | None = None
    build_metrics: BuildMetrics | None = None
    # Of attempts under way: by name, of a job with several tasks by INDEX/NAME, 1,000 at most.
    ports: dict[str, int] | None = None
    # Of a job with one task: what that returned, if it has succeeded.
    serialized_result: msgspec.Raw = absent_is_null()


class JobPage(msgspec.Struct, frozen=True):
    """Some jobs, newest first; `next_page_token` leads to the following ones."""

    jobs: list[JobStatus]
    next_page_token: str | None = None


class SubmittedJob(msgspec.Struct, frozen=True):
    """What every submitter needs of the answer; not new if the key had been seen before."""

    job_id: str
    is_new: bool
    num_tasks: int


class JobBatchAnswer(msgspec.Struct, frozen=True):
    """The jobs of a batch, in the order of the request."""

    jobs: list[SubmittedJob]


class TaskPage(msgspec.Struct, frozen=True):
    """Some tasks of a job, by index."""

    tasks: list[TaskStatus]
    next_page_token: str | None = None


class AttemptList(msgspec.Struct, frozen=True):
    """The attempts of a task, oldest first."""

    attempts: list[TaskAttempt]
    next_page_token: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One state change, or one thing that happened to a job (task_index -1)."""

    id: int
    job_id: str
    task_index: int
    attempt: int
    seq: int
    type: str
    ts: datetime
    actor: str | None = None
    correlation_id: str
    trace_id: str | None = None
    cause: str | None = None
    payload: msgspec.Raw = absent_is_null()
    version: int = 1


class EventPage(msgspec.Struct, frozen=True):
    """Some events, in the order in which they happened."""

    events: list[Event]
    next_page_token: str | None = None


class ChangedJobs(msgspec.Struct, frozen=True):
    """Jobs with new events since the last message; `all`: any of them may have some."""

    job_ids: list[str]
    all: bool = False


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a task stands, and what its function returned if it has succeeded."""

    task_id: str
    state: str
    result: msgspec.Raw = absent_is_null()
    error: str | None = None
    error_class: str | None = None
    exit_code: int | None = None
    is_finished: bool = False
    pickled: bool = False


class ResultPage(msgspec.Struct, frozen=True):
    """The results of some tasks of a job, by index.

    `is_list` tells a job of many tasks, or of one per input, from a single call: what it hands
    on to jobs that wait for it is the list of its results.
    """

    results: list[TaskResult]
    next_page_token: str | None = None
    is_list: bool = False


class LogTime(msgspec.Struct, frozen=True):
    """When the bytes from an offset on were stored."""

    offset: int
    stored_at_ms: int


class LogChunk(msgspec.Struct, frozen=True):
    """A stretch of an attempt's output; read on from `next_offset`.

    `times` says when it was stored, as a rule within half a second after it was written. Of a long
    log the middle is not kept: `left_out` is how many of the bytes asked for are missing before
    `offset`. `line` is the number of the line at `offset`, if a line or the tail was asked for.
    """

    task_id: str
    attempt: int
    offset: int
    next_offset: int
    content: bytes
    is_complete: bool
    times: list[LogTime] = []
    left_out: int = 0
    line: int | None = None


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of what a worker has; memory and disk are bytes."""

    cpu: float
    memory: int
    disk: int
    gpu: int


class WorkerResources(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker has, what unreleased attempts have booked of it, and what is left."""

    capacity: Amounts
    used: Amounts
    free: Amounts
    gpu_model: str | None = None


class WorkerEnds(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts ended on a worker within the last hour, by how they did."""

    succeeded: int = 0
    failed: int = 0
    worker_failed: int = 0
    killed: int = 0


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process: who it is, whether it lives, what it holds.

    A placed one is called by the server, and judged by the calls that failed in a row.
    """

    worker_id: str
    name: str
    host: str
    queues: list[str]
    health: str
    registered_at_ms: int
    last_seen_at_ms: int | None = None
    lost_at_ms: int | None = None
    lost_cause: str | None = None
    replaced_by: str | None = None
    draining: bool = False
    # Attempts it has not released, and the first few of their tasks.
    running: int = 0
    running_tasks: list[str] = []
    placed: bool = False
    address: str | None = None
    resources: WorkerResources | None = None
    attributes: dict[str, AttributeValue] = {}
    consecutive_failures: int = 0
    last_failure: str | None = None
    last_answer_at_ms: int | None = None
    # One process that serves queues and placed work is listed twice, with one book: the other one.
    same_process: str | None = None
    # Of its program, and by how much its host's clock was ahead when it registered, if it said so.
    version: str | None = None
    clock_skew_seconds: float | None = None
    # As servers have counted them, every few seconds.
    ended_last_hour: WorkerEnds = WorkerEnds()


class WorkerList(msgspec.Struct, frozen=True):
    """Workers, the living first."""

    workers: list[WorkerStatus]
    next_page_token: str | None = None


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One queue: what waits in it, for how long, and how fast it drains."""

    queue: str
    depth: int
    oldest_age_seconds: float | None = None
    # Due later: retries and tasks that may not start yet.
    waiting: int = 0
    running: int = 0
    finished_per_second: float = 0.0
    paused: bool = False
    paused_by: str | None = None
    # Workers that have registered for it, live and do not drain. Who claims without having
    # registered serves it too.
    workers: int = 0
    is_served: bool = True
    # Of those in line, tasks that ask for more than any of its workers has, as far as is known.
    never_fits: int = 0
    # Beside those in line, tasks behind a limit; and the limit of the queue that is used up.
    gated: int = 0
    limited_by: str | None = None


class QueueList(msgspec.Struct, frozen=True):
    """Queues that are served or paused, or that hold, run or recently finished something."""

    queues: list[QueueStatus]


class Changed(msgspec.Struct, frozen=True):
    """Whether a request changed anything; repeating one that did is harmless."""

    changed: bool
