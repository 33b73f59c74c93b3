"""What callers send: one struct per request body or query, and an unknown field is an error."""

from typing import Annotated, Any, ClassVar
from uuid import UUID

import msgspec
from msgspec import Meta

from holdfast.model.datasets import OutputEntry
from holdfast.model.submitting.spec import JobSpec
from holdfast.model.work.ids import INDEX_MAX, WORKER_ID_LENGTH_MAX
from holdfast.model.work.outcomes import STATUSES, CancelMode, PutOff, Stage
from holdfast.model.workers.resources import AttributeValue, Capacity
from holdfast.wire.raw import absent_is_null

WAIT_MS_MAX = 60_000
PAGE_SIZE_MAX = 1000


def _described(**schema: Any) -> Meta:
    """Describe a text to readers of the routes; whoever reads its value words the refusal."""
    return Meta(extra_json_schema=schema)


JobIdText = Annotated[str, _described(pattern=r"^[1-9][0-9]{0,18}$", examples=["4182"])]
TaskIdText = Annotated[
    str, _described(pattern=r"^[1-9][0-9]{0,18}\.(0|[1-9][0-9]{0,9})$", examples=["4182.3"])
]
WorkerIdText = Annotated[
    str,
    _described(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$",
        maxLength=WORKER_ID_LENGTH_MAX,
        examples=["builder-7f3a"],
    ),
]
# Also any name of the state in which the attempt ended: SUCCEEDED, Completed, TASK_STATE_KILLED.
StatusText = Annotated[str, _described(enum=list(STATUSES))]
Name = Annotated[str, _described(minLength=1, maxLength=256)]
QueueText = Annotated[
    str,
    _described(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", maxLength=256, examples=["team/gpu"]),
]
AttemptNumber = Annotated[int, Meta(ge=0, le=INDEX_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)]
PageSize = Annotated[int, Meta(ge=1, le=PAGE_SIZE_MAX)]
Offset = Annotated[int, Meta(ge=0)]
# A generation: what is longer is no time that a task has run.
RunMs = Annotated[int, Meta(ge=0, le=10**12)]
LineNumber = Annotated[int, Meta(ge=1)]
LogBytes = Annotated[int, Meta(ge=1)]
# Milliseconds since 1970, up to the year 9999.
Moment = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The root of every request; fields of a query that may be repeated are joined by commas."""

    repeatable: ClassVar[frozenset[str]] = frozenset()


class Nothing(Request, frozen=True):
    """A body or a query without fields."""


class TaskClaimRequest(Request, frozen=True):
    """Claim one task by id, or up to `max_tasks` from queues; `wait_ms` makes it a long poll."""

    worker_id: WorkerIdText
    task_id: TaskIdText | None = None
    queues: list[Name] = []
    max_tasks: Annotated[int, Meta(ge=1, le=1000)] = 1
    wait_ms: WaitMs = 0
    idempotency_key: str | None = None
    # What the worker has free for tasks that name resources, and in all; without it, all fit.
    free: Capacity | None = None
    capacity: Capacity | None = None
    # Instead of these: the book of its placed work, by which the server counts what is free.
    book: WorkerIdText | None = None
    # Record the start, too, of what needs nothing built first: it is run at once.
    start: bool = False


class Progress(Request, frozen=True):
    """How far a task has got, from 0 to 1, and what it says about it."""

    fraction: Annotated[float, Meta(ge=0, le=1)]
    message: str | None = None


class LeaseReport(Request, frozen=True):
    """One lease to renew; `state` says where its attempt stands, if that is news.

    With RUNNING, `run_ms` is for how long it has run by now, by the worker's own clock.
    """

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    state: str | None = None
    progress: Progress | None = None
    run_ms: RunMs = 0
    # What its attempt has used so far.
    usage: dict[str, Any] | None = None


class HeartbeatRequest(Request, frozen=True):
    """Renew many leases, or the one named here; who holds that one need not be named.

    With `wait_ms` the answer is held back until there is a cancel to tell this worker about. Under
    an `idempotency_key`, for reports of BUILDING and RUNNING, a repeat gets the first answer.
    """

    worker_id: WorkerIdText | None = None
    leases: list[LeaseReport] | None = None
    task_id: TaskIdText | None = None
    attempt: AttemptNumber | None = None
    lease_token: UUID | None = None
    state: str | None = None
    progress: Progress | None = None
    run_ms: RunMs | None = None
    usage: dict[str, Any] | None = None
    wait_ms: WaitMs = 0
    idempotency_key: str | None = None


class UserEvent(Request, frozen=True):
    """What user code wants to have noted beside the log."""

    kind: str
    payload: msgspec.Raw = absent_is_null()


class TaskCompletion(Request, frozen=True, gc=False):
    """How one attempt ended."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    status: StatusText
    exit_code: int | None = None
    error: str | None = None
    error_class: str | None = None
    stage: Stage | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    events: list[UserEvent] = []
    # False saves the server a look; it makes no difference otherwise.
    start_reported: bool = True
    # What the attempt has used, and what its build took.
    usage: dict[str, Any] | None = None
    build: dict[str, Any] | None = None
    # The span that ran it, where the worker traces.
    trace_parent: str | None = None
    # Of a success: what it has written to the datasets of its job.
    outputs: list[OutputEntry] = []
    # For how long it ran, by the worker's own clock.
    run_ms: RunMs = 0
    # Of a failure: when its code wants the next attempt.
    put_off: PutOff | None = None


class TaskCompleteRequest(Request, frozen=True):
    """Complete many attempts, or the one described here; who ran that one need not be named.

    Completions are repeatable by their lease tokens alone; under an `idempotency_key` all of them
    are, and different ones under it are a conflict. A `claim` brings back new work with the answer:
    it is made once they are stored, waits for nothing, and has a key of its own.
    """

    worker_id: WorkerIdText | None = None
    completions: list[TaskCompletion] | None = None
    task_id: TaskIdText | None = None
    attempt: AttemptNumber | None = None
    lease_token: UUID | None = None
    status: StatusText | None = None
    exit_code: int | None = None
    error: str | None = None
    error_class: str | None = None
    stage: Stage | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    events: list[UserEvent] = []
    usage: dict[str, Any] | None = None
    build: dict[str, Any] | None = None
    outputs: list[OutputEntry] = []
    run_ms: RunMs | None = None
    put_off: PutOff | None = None
    idempotency_key: str | None = None
    claim: TaskClaimRequest | None = None


class AdoptedAttempt(Request, frozen=True):
    """An attempt of a replaced incarnation whose process still runs, or whose end is known."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID


class WorkerRegisterRequest(Request, frozen=True):
    """A worker process says who it is; `replaces` names an incarnation it knows to be gone.

    `crash` says how the process of that one ended, if not by its own will.
    It is known by its `secret` from here on; `replaces_secret` was that of the other. With an
    `address` it is called there for placed work, by calls that carry the hash of its `secret`. What
    is claimed by its `book` is taken from its resources, too. Without an `address`, `resources` are
    what it has for tasks of its queues, and `book` is that of the other half of its process.
    """

    worker_id: WorkerIdText
    name: str
    host: str
    queues: list[str] = []
    replaces: WorkerIdText | None = None
    address: str | None = None
    secret: str | None = None
    resources: Capacity | None = None
    attributes: dict[str, AttributeValue] = {}
    adopts: list[AdoptedAttempt] = []
    book: WorkerIdText | None = None
    crash: str | None = None
    replaces_secret: str | None = None


class LogAppendRequest(Request, frozen=True):
    """A stretch of an attempt's output, from `offset` on; sending it twice is harmless."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    offset: Offset
    content: bytes


class LogBatchRequest(Request, frozen=True):
    """Output of several attempts, each with its own lease."""

    logs: list[LogAppendRequest]


class CheckpointSaveRequest(Request, frozen=True):
    """What the next attempt of a task should find."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    checkpoint: msgspec.Raw


class CheckpointLoadRequest(Request, frozen=True):
    """Ask for what an earlier attempt has saved."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID


class JobRequest(JobSpec, frozen=True, kw_only=True):
    """A job spec, with one task per input where `inputs` are given.

    `local_name` is what other jobs of the same batch call it in their `depends_on`.
    """

    inputs: list[msgspec.Raw] | None = None
    local_name: Annotated[str, _described(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")] | None = None
    # A job of a function that names no queue has that of the function's decorator, unless it is
    # to be placed.
    placed: bool = False


class JobBatchRequest(Request, frozen=True):
    """Jobs that are taken in all together or not at all; with local names they are a graph."""

    specs: list[JobRequest]


class CancelRequest(Request, frozen=True):
    """Stop softly (the task is told and has its grace) or hard (at once)."""

    mode: CancelMode = "soft"
    reason: str = "cancelled"
    idempotency_key: str | None = None


class PassRequest(Request, frozen=True):
    """Have a chain go on that stands still after a job of it has failed."""

    reason: str = "let pass"


class RerunRequest(Request, frozen=True):
    """Submit a job again: all of its tasks, or of one with inputs those that did not succeed.

    With `rebind_outputs` as in a replay of dead letters.
    """

    only_unsuccessful: bool = False
    dry_run: bool = False
    idempotency_key: str | None = None
    rebind_outputs: bool = False


class DeadLetterRequest(Request, frozen=True):
    """Move a task to the dead letters by an operator's decision."""

    reason: str = "dead-lettered by an operator"
    idempotency_key: str | None = None


class DeadLetterFilter(Request, frozen=True):
    """Which dead letters; what is left out matches all.

    `fingerprint` is the kind of their error: that of a group in the sum of dead letters.
    """

    reason_code: str | None = None
    stage: str | None = None
    type: str | None = None
    queue: str | None = None
    job_id: JobIdText | None = None
    fingerprint: str | None = None


class JobQuery(Request, frozen=True):
    """How to read one job: with a page of its tasks, or once it has ended (a long poll).

    With `totals`, what its tasks add up to: all of them are read for that.
    """

    tasks: bool = False
    wait_ms: WaitMs = 0
    totals: bool = False


class JobListQuery(Request, frozen=True):
    """Which jobs to list; `name` is a prefix, `label` is key=value.

    `state` may be several: repeated, or with commas between them; `unsuccessful` stands for every
    end but SUCCEEDED. `fingerprint` is that of a job's error, as the overview names it.
    `submitted_from_ms` is the first moment that counts, `submitted_until_ms` the first after them.
    `worker` is the id of one that has run attempts of theirs: among its newest 10,000, or now.
    """

    repeatable: ClassVar[frozenset[str]] = frozenset({"state"})

    state: str | None = None
    name: str | None = None
    type: str | None = None
    owner: str | None = None
    queue: str | None = None
    parent: JobIdText | None = None
    label: str | None = None
    correlation_id: str | None = None
    submitted_from_ms: Moment | None = None
    submitted_until_ms: Moment | None = None
    fingerprint: str | None = None
    page_size: PageSize = 50
    page_token: str | None = None
    worker: str | None = None


class PageQuery(Request, frozen=True):
    """One page of a list."""

    page_size: PageSize = 100
    page_token: str | None = None


class TaskListQuery(Request, frozen=True):
    """Which tasks of a job to list, from which index on."""

    state: str | None = None
    task_from: Annotated[int, Meta(ge=0, le=INDEX_MAX)] = 0
    page_size: PageSize = 100
    page_token: str | None = None


class LogQuery(Request, frozen=True):
    """Where to read a log from; `follow` waits for more, up to `wait_ms`.

    In the place of an `offset`, `line` begins with a line, counted from 1, and `tail` with so many
    lines before the end. An answer has `bytes_max` bytes at most.
    """

    attempt: AttemptNumber | None = None
    offset: Offset = 0
    follow: bool = False
    wait_ms: WaitMs = 10_000
    line: LineNumber | None = None
    tail: LineNumber | None = None
    bytes_max: LogBytes = 1 << 20


class ResultQuery(Request, frozen=True):
    """Whether to wait for the end of the task first."""

    wait_ms: WaitMs = 0
