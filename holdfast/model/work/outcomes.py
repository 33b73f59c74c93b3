"""How an attempt ended, and what follows from it for its task."""

from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from holdfast.errors import Invalid
from holdfast.model.work.states import TaskState, read_state_name

Stage = Literal["fetch", "input", "exec", "output", "commit"]
STAGES: tuple[Stage, ...] = ("fetch", "input", "exec", "output", "commit")

ReasonCode = Literal[
    "exhausted_retries",
    "validation_failed",
    "parse_error",
    "timeout",
    "dependency_unavailable",
    "infrastructure_failure",
    "policy_violation",
    "compensation_failed",
]

# What a worker says of a loss before the task ran: it lacks a program, which waiting does not mend,
# or it cannot build for another reason of its own, such as an index that is out of reach.
MISSING_TOOL = "MissingTool"
BUILD_UNAVAILABLE = "BuildUnavailable"

CancelMode = Literal["soft", "hard"]

# What a worker may report of an attempt's end.
# "waiting": it has ended to wait for a signal.
Status = Literal["succeeded", "failed", "killed", "worker_failed", "handed_back", "waiting"]
STATUSES: tuple[Status, ...] = get_args(Status)

# What a worker says of code that it may not run; no exception of user code has this name.
REFUSED_BY_WORKER = "RefusedByWorker"

# Classes of errors that another attempt would meet again.
NOT_RETRYABLE = frozenset({"PermanentError", "ValidationError", "ParseError", REFUSED_BY_WORKER})


# What user code raises that asks for a later time.
PUT_OFF = "RetryAfter"
PUT_OFF_MS_MAX = 366 * 86_400_000


class PutOff(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a task that has failed wants its next attempt, and whether that costs it no retry."""

    after_ms: int
    free: bool = False


def parse_status(text: str, field: str = "status") -> Status:
    """Read how an attempt ended: a status, or any name of the state that it ended in."""
    name = read_state_name(text).lower()
    for status in STATUSES:
        if status == name:
            return status
    raise Invalid(field, f"{text!r} is unknown; use one of {', '.join(STATUSES)}")


@dataclass(frozen=True, slots=True)
class Succeeded:
    """User code finished with exit code 0."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """User code failed, or its bundle or dependencies were wrong, or it ran into its timeout."""

    error: str
    error_class: str = "TransientError"
    # None: that of the state which the attempt was in.
    stage: Stage | None = "exec"
    exit_code: int | None = None
    # In the place of the backoff.
    put_off: PutOff | None = None


@dataclass(frozen=True, slots=True)
class Killed:
    """The server ended it: cancel, cascade, timeout, an operator's dead-letter call."""

    cause: str
    error: str | None = None
    exit_code: int | None = None
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """The worker or its lease was lost, or it gave the task back.

    A `free` loss costs no budget. One that is `excused` is free a few times: the worker had never
    acknowledged the attempt, or its process crashed and it is not known by whose code.
    """

    cause: str
    free: bool = False
    excused: bool = False
    error_class: str | None = None
    # The same was missing on every worker that tried it: there is no point in another.
    is_hopeless: bool = False


Outcome = Succeeded | Failed | Killed | WorkerFailed


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """The task stays where its attempt ended, for good."""

    state: TaskState
    failure_count: int
    preemption_count: int


@dataclass(frozen=True, slots=True)
class TaskRetried:
    """The task is PENDING again; its next attempt may start after `delay` seconds."""

    state: TaskState
    failure_count: int
    preemption_count: int
    free_loss_count: int
    delay: float


@dataclass(frozen=True, slots=True)
class TaskDeadLettered:
    """The task's attempt ended in `state`, and then the task went to the dead letters."""

    state: TaskState
    failure_count: int
    preemption_count: int
    reason_code: ReasonCode


TaskVerdict = TaskFinished | TaskRetried | TaskDeadLettered
