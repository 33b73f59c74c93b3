"""Signals on the wire: sent to a task, and waited for by its attempt."""

from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from holdfast.wire.raw import absent_is_null
from holdfast.wire.requests import AttemptNumber, Request, TaskIdText

WAIT_PATH = "/internal/signal-wait"
TaskIndex = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class SignalRequest(Request, frozen=True):
    """What to send, and the index of the task it is for; a job of one task needs no index."""

    name: str
    payload: msgspec.Raw = absent_is_null()
    task: TaskIndex | None = None
    idempotency_key: str | None = None


class AwaitedSignal(msgspec.Struct, frozen=True, kw_only=True):
    """The signal that a task waits for; without an end if there is no `until_ms`."""

    name: str
    since_ms: int
    until_ms: int | None = None


class SentSignal(msgspec.Struct, frozen=True, kw_only=True):
    """The task that keeps the signal, and the how-manieth of its name it is there."""

    task_id: str
    name: str
    number: int
    is_repeat: bool = False


class SignalWaitRequest(Request, frozen=True):
    """Ask, for an attempt, how its n-th wait for a name stands; the timeout is in seconds."""

    task_id: TaskIdText
    attempt: AttemptNumber
    lease_token: UUID
    name: str
    number: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    timeout: float | None = None


class SignalWaitAnswer(msgspec.Struct, frozen=True):
    """Whether the signal has come; if it is waited for, the attempt ends with status waiting."""

    state: Literal["received", "timed_out", "waiting"]
    payload: msgspec.Raw = absent_is_null()
