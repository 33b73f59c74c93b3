"""What the server answers to workers; readers ignore fields they do not know.

What comes by the thousand is left out by the search for garbage (`gc=False`): a frozen struct of
plain values is in no cycle.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from holdfast.model.submitting.order import Output
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.workers.resources import Resources
from holdfast.wire.raw import absent_is_null

# A completion may bring a claim along.
CLAIM_WITH_COMPLETIONS = "claim_with_completions"
# A claim may ask that the starts of what it is given are recorded with it.
START_WITH_CLAIM = "start_with_claim"
PUT_OFF = "put_off"
ABILITIES = [CLAIM_WITH_COMPLETIONS, START_WITH_CLAIM, PUT_OFF]


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong: a code for programs, a message for people, the field if there is one."""

    code: str
    message: str
    field: str | None = None
    details: dict[str, Any] | None = None


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The shape of every answer that is not a success."""

    error: ErrorBody


class ClaimedJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker has to know of a job to run one of its tasks."""

    job_id: str
    name: str
    type: str
    entrypoint: Entrypoint
    num_tasks: int
    lease: float
    grace: float
    correlation_id: str
    queue: str | None = None
    timeout: float | None = None
    environment: dict[str, str] = {}
    trace_id: str | None = None
    # One task per input: then a null input is an input too.
    fan_out: bool = False
    # Of a compensation: the job that it undoes; each input tells of a task of that job.
    compensates_job_id: str | None = None
    # The span that submitted it: its traceparent, then a space and its tracestate if it has one.
    trace_parent: str | None = None
    # The datasets that it writes, with the number of the version of each.
    outputs: list[Output] = []
    # What each task needs of its worker, if the job says so.
    resources: Resources | None = None


class ClaimedTask(msgspec.Struct, frozen=True, gc=False):
    """One task leased to the worker that asked; `job` is a ClaimedJob, `input` any JSON."""

    task_id: str
    attempt: int
    lease_token: UUID
    lease_expires_at: datetime
    lease_remaining_ms: int
    job: msgspec.Raw
    failure_count: int
    preemption_count: int
    input: msgspec.Raw = absent_is_null()
    # The span of this claim, where the server traces.
    trace_parent: str | msgspec.UnsetType = msgspec.UNSET
    # Whether it has to run in a process of its own: it was there when a worker crashed.
    isolate: bool | msgspec.UnsetType = msgspec.UNSET
    # Whether its start is recorded already, because the claim asked for that.
    started: bool | msgspec.UnsetType = msgspec.UNSET


class TaskClaimAnswer(msgspec.Struct, frozen=True):
    """What was claimed; empty when there is nothing.

    `waited_ms` is how long the request had been held before these leases began: their time counts
    from that much after the request was sent. `abilities` names what this server can that an older
    one refuses: those of `ABILITIES` which it knows.
    """

    claims: list[ClaimedTask]
    waited_ms: int = 0
    abilities: list[str] = []


class LeaseAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A renewed lease, or why it was not renewed."""

    task_id: str
    lease_expires_at: datetime | None = None
    lease_remaining_ms: int | None = None
    error: ErrorBody | None = None


class CancelNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker is asked to stop an attempt: softly within the time that remains, or at once."""

    task_id: str
    attempt: int
    mode: CancelMode
    remaining_ms: int | None = None


class HeartbeatAnswer(msgspec.Struct, frozen=True):
    """One answer per lease, what should stop, and whether the whole worker should drain."""

    leases: list[LeaseAnswer]
    cancel: list[CancelNotice]
    drain: bool = False


class CompletionAnswer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Whether a completion counted; not accepted means that the attempt had been ended before."""

    task_id: str
    accepted: bool | None = None
    error: ErrorBody | None = None


class TaskCompleteAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer per completion; and what came of the claim that they brought along, if any."""

    results: list[CompletionAnswer]
    claim: TaskClaimAnswer | None = None
    claim_error: ErrorBody | None = None


class AttemptName(msgspec.Struct, frozen=True):
    """One attempt of one task."""

    task_id: str
    attempt: int


class WorkerRegisterAnswer(msgspec.Struct, frozen=True):
    """The worker is known; `taken_over` attempts of the one it replaces have been ended."""

    worker_id: str
    taken_over: int
    # Of the attempts presented, those that live on under this worker; the others must end.
    adopted: list[AttemptName] = []
    # How often a worker of placed work is called; None says an older server.
    heartbeat_seconds: float | None = None


class LogAppendAnswer(msgspec.Struct, frozen=True):
    """Where the next stretch of the log begins: the end of the one that is stored now."""

    size: int


class LogBatchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one stretch."""

    task_id: str
    size: int | None = None
    error: ErrorBody | None = None


class LogBatchAnswer(msgspec.Struct, frozen=True):
    """For each stretch where its log ends now, or why it is not kept."""

    results: list[LogBatchResult]


class CheckpointAnswer(msgspec.Struct, frozen=True):
    """What an earlier attempt has saved; null if there is nothing."""

    checkpoint: msgspec.Raw
    attempt: int | None = None
