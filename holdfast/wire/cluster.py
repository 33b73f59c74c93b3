"""What a server and a worker that it calls say to each other.

A call names everything the server wants on the worker, an answer everything the worker has: sending
either twice is harmless, and nothing is lost with one that did not arrive.
"""

from typing import Any
from uuid import UUID

import msgspec

from holdfast.model.workers.resources import Resources
from holdfast.wire.answers import AttemptName, ClaimedJob
from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import (
    AttemptNumber,
    Request,
    TaskCompletion,
    TaskIdText,
    WorkerIdText,
)

HEARTBEAT_PATH = "/holdfast.v1.WorkerService/Heartbeat"
# On calls of a server to a worker: the SHA-256 of the secret that it registered with, in hex.
SECRET_HEADER = "Holdfast-Worker-Secret"
# On calls of a worker to a server: its id, a space, and its secret.
WORKER_HEADER = "Holdfast-Worker"


class PlacedJob(ClaimedJob, frozen=True, kw_only=True):
    """What a worker needs to know of a job to build and run its tasks."""

    resources: Resources
    bundle: str | None = None
    requirements: list[str] = msgspec.field(default_factory=list)


class Gang(msgspec.Struct, frozen=True):
    """Where the members are that take part in this round, by task index; `rank` is one's own."""

    peers: list[str]
    rank: int | None = None


class TaskToRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that is wanted on the worker; `job` comes along until the worker has named it.

    `lease_ms` counts from the moment the worker sent the answer that the call names.
    """

    task_id: str
    attempt: int
    lease_token: UUID
    lease_ms: int | None = None
    # Set when it was asked to stop: what is left of its grace.
    cancel_ms: int | None = None
    job: msgspec.Raw = absent_is_null()
    input: msgspec.Raw = absent_is_null()
    ports: dict[str, int] = {}
    devices: list[str] = []
    gang: Gang | None = None
    # The span of the call that brings it, where the server traces.
    trace_parent: str | None = None


class TaskToKill(msgspec.Struct, frozen=True):
    """An attempt whose process must go: it has ended in the ledger, or never was there.

    What is left of its lease is there for its grace; of one that is unknown, nothing is.
    """

    task_id: str
    attempt: int
    lease_token: UUID
    lease_ms: int | None = None


class WorkerHeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that the server wants of one incarnation; lower (epoch, number) are refused."""

    worker_id: str
    epoch: int
    number: int
    # The last answer that is stored: leases count from when it was sent.
    answered_epoch: int | None = None
    answered_number: int | None = None
    tasks_to_run: list[TaskToRun] = []
    tasks_to_kill: list[TaskToKill] = []
    # Completions that are stored, or refused for good: they need not be told again.
    acknowledged: list[AttemptName] = []
    drain: bool = False


class RunningTask(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An attempt that is on the worker: ASSIGNED, BUILDING or RUNNING.

    Its number is called `attempt`, or `attempt_id` by workers that have it under that name. What
    it has used so far is told now and then, where it has changed.
    """

    task_id: TaskIdText
    attempt: AttemptNumber | None = None
    attempt_id: AttemptNumber | None = None
    lease_token: UUID
    state: str
    usage: dict[str, Any] | None = None


class CompletedTask(TaskCompletion, frozen=True, kw_only=True):
    """How an attempt on the worker ended; its number goes by either name, as in `RunningTask`."""

    attempt: AttemptNumber | None = None  # type: ignore[assignment]  # filled in by its reader
    attempt_id: AttemptNumber | None = None


class WorkerHeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All that is on one incarnation, and all that ended there and was not acknowledged yet."""

    worker_id: str
    epoch: int
    number: int
    running_tasks: list[RunningTask] = []
    completed_tasks: list[CompletedTask] = []
    # It takes nothing more, whoever asked it to; what was placed there meanwhile comes back.
    draining: bool = False


class WorkerNewsRequest(Request, frozen=True):
    """A called worker would like to be called soon."""

    worker_id: WorkerIdText


class WorkerDrainRequest(Request, frozen=True):
    """A worker takes nothing more, finishes what it has, and leaves."""

    worker_id: WorkerIdText


class WorkerLeaveRequest(Request, frozen=True):
    """A called worker is gone for good, with everything that ran there."""

    worker_id: WorkerIdText
    secret: str
