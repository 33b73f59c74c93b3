"""What a running function is given: who it is, how it reports, and whether it should stop."""

import contextvars
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

import msgspec

from holdfast.client.both import LoopThread, both
from holdfast.client.codec import PayloadCodec, decode_text
from holdfast.client.outputs import Outputs
from holdfast.client.signals import count_waits, wait_for_signal
from holdfast.client.token import AUTHORIZATION, UNNAMED, Token
from holdfast.client.transport import VARIABLE, Transport
from holdfast.client.turns import wait_for_turn
from holdfast.errors import Invalid
from holdfast.model.datasets import OutputEntry
from holdfast.model.submitting.order import Output
from holdfast.wire.answers import CheckpointAnswer
from holdfast.wire.attempt_calls import LEASE_HEADER
from holdfast.wire.endpoints import (
    REGISTER_PATH,
    REMOVE_PATH,
    EndpointRegisterRequest,
    EndpointRemoveRequest,
    EndpointStatus,
)
from holdfast.wire.events import WRITE_PATH, TaskEventRequest
from holdfast.wire.raw import encode_json
from holdfast.wire.requests import CheckpointLoadRequest, CheckpointSaveRequest, Nothing
from holdfast.wire.status import Changed

if TYPE_CHECKING:
    from holdfast.client.client import Submits

Answer = TypeVar("Answer")
_CALL_SECONDS_MAX = 20.0
_LEASE_VARIABLES = ("HOLDFAST_TASK_ID", "HOLDFAST_ATTEMPT", "HOLDFAST_LEASE_TOKEN")
current: contextvars.ContextVar["Context | None"] = contextvars.ContextVar(
    "holdfast_context", default=None
)


class Lease(NamedTuple):
    """Which attempt speaks, and the token that proves it."""

    task_id: str
    attempt: int
    lease_token: UUID

    def __str__(self) -> str:
        return f"{self.task_id} {self.attempt} {self.lease_token}"

    def headers(self) -> dict[str, str]:
        """Give the headers of a call that the attempt makes, or that is made for it."""
        return {LEASE_HEADER: str(self)}


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempt this is, and the token that lets it speak for itself."""

    server: str
    task_id: str
    attempt: int
    lease_token: UUID
    job_name: str
    num_tasks: int
    correlation_id: str
    deadline: datetime | None = None
    trace_id: str | None = None
    # The span that its code belongs to.
    trace_parent: str | None = None
    # The datasets that its job writes.
    outputs: list[Output] = []
    environment: dict[str, str] = {}

    @property
    def lease(self) -> Lease:
        """The lease of the attempt."""
        return Lease(self.task_id, self.attempt, self.lease_token)


class Connection(msgspec.Struct, frozen=True):
    """How an attempt reaches the server."""

    transport: Transport
    loop_thread: LoopThread
    # That of its worker.
    codec: PayloadCodec | None = None


class Checkpoint:
    """What this attempt leaves for the next one of its task."""

    def __init__(self, identity: Identity, connection: Callable[[], Connection]) -> None:
        self._identity = identity
        self._connection = connection

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        return self._connection().loop_thread

    @both
    def save(self, value: Any) -> Coroutine[Any, Any, None]:
        """Keep a value (JSON) instead of the last one. Raises LeaseConflict if too late."""
        text, codec = _encode(value, "checkpoint"), self._connection().codec
        return self._save(text if codec is None else codec.encode(bytes(text)))

    @both
    async def load(self) -> Any:
        """Give back what was kept last, by this attempt or an earlier one; None if nothing was."""
        identity = self._identity
        body = CheckpointLoadRequest(identity.task_id, identity.attempt, identity.lease_token)
        answer = await self._call("/internal/checkpoint-load", body)
        return msgspec.json.decode(decode_text(self._connection().codec, answer.checkpoint))

    async def _save(self, text: msgspec.Raw) -> None:
        identity = self._identity
        body = CheckpointSaveRequest(identity.task_id, identity.attempt, identity.lease_token, text)
        await self._call("/internal/checkpoint-save", body)

    async def _call(self, path: str, body: Any) -> CheckpointAnswer:
        transport = self._connection().transport
        return await transport.insist(
            "POST",
            path,
            CheckpointAnswer,
            body=body,
            headers=self._identity.lease.headers(),
            seconds_max=_CALL_SECONDS_MAX,
        )


def _make_checkpoint(context: "Context") -> Checkpoint:
    """Keep something for the next attempt of this task."""
    return Checkpoint(context.identity, context._connection)


def _list_variables(context: "Context") -> dict[str, str]:
    return context.identity.environment


def _find_correlation_id(context: "Context") -> str:
    return context.identity.correlation_id


def _find_trace_id(context: "Context") -> str | None:
    return context.identity.trace_id


def _find_own_token(context: "Context") -> Token:
    """Find the token that a job has in its environment, if it has one."""
    return Token(environment=context.environment)


def _make_output(context: "Context") -> Outputs:
    """Collect what this attempt writes to datasets."""
    return Outputs(context.identity.outputs)


class AttemptLogger(logging.LoggerAdapter[logging.Logger]):
    """Writes to the log of one attempt: a text with `ctx.log(...)`, or as any logger does."""

    def __call__(self, text: str, /, **fields: object) -> None:
        """Write a line, such as `ctx.log("loaded", rows=3)`."""
        words = [str(text), *(f"{name}={value}" for name, value in fields.items())]
        self.info("%s", " ".join(words), stacklevel=2)


def _make_log(context: "Context") -> AttemptLogger:
    """Log lines that say which attempt they come from."""
    identity = context.identity
    fields = {
        "task_id": identity.task_id,
        "attempt": identity.attempt,
        "correlation_id": identity.correlation_id,
        "trace_id": identity.trace_id,
    }
    logger = logging.getLogger("holdfast.task")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)  # a line of `ctx.log` is kept, whatever others log
    return AttemptLogger(logger, fields)


class Context:
    """One attempt, as its function sees it."""

    def __init__(
        self,
        identity: Identity,
        *,
        is_cancelled: Callable[[], bool],
        note_progress: Callable[[float, str | None], None],
        connection: Callable[[], Connection],
        codec: PayloadCodec | None = None,
    ) -> None:
        self.codec = codec
        self.identity = identity
        self._is_cancelled = is_cancelled
        self._note_progress = note_progress
        self._connection = connection

    # Made when they are asked for: most functions are short, and ask for none of these.
    checkpoint = cached_property(_make_checkpoint)
    output = cached_property(_make_output)
    log = cached_property(_make_log)
    _waits = cached_property(count_waits)
    wait = both(wait_for_signal)
    _own_token = cached_property(_find_own_token)
    # The variables of its job; a function that shares its process has them here alone.
    environment = cached_property(_list_variables)
    # What its job and all that follows from it have in common, and the trace of its job.
    correlation_id = cached_property(_find_correlation_id)
    trace_id = cached_property(_find_trace_id)

    @property
    def task_id(self) -> str:
        """The task, such as 4182.3."""
        return self.identity.task_id

    @property
    def job_id(self) -> str:
        """The job, such as 4182."""
        return self.identity.task_id.partition(".")[0]

    @property
    def task_index(self) -> int:
        """The index of the task in its job, from 0 on."""
        return int(self.identity.task_id.partition(".")[2])

    @property
    def attempt(self) -> int:
        """The number of this attempt: the fence, which only grows per task."""
        return self.identity.attempt

    @property
    def deadline(self) -> datetime | None:
        """The moment at which the attempt will have run too long, if it has a timeout."""
        return self.identity.deadline

    @property
    def cancelled(self) -> bool:
        """Whether the attempt has been asked to stop: save what matters, and return."""
        return self._is_cancelled()

    def progress(self, fraction: float, message: str | None = None) -> None:
        """Say how far the task has got, from 0 to 1; only the latest word counts."""
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"progress {fraction!r} is not from 0 to 1")
        self._note_progress(float(fraction), message)

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        return self._connection().loop_thread

    @property
    def submit(self) -> "Submits":
        """Submit one call of a function as a job of one task, a child of this task's job."""
        from holdfast.client.client import submit_for

        return submit_for(self)

    @both
    def register_endpoint(
        self, name: str, address: str, metadata: dict[str, Any] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Publish an address until this attempt ends; IllegalMove if a running task has the name.

        Again with another address changes it. Raises LeaseConflict if the attempt has ended.
        """
        plain = msgspec.json.decode(_encode(metadata, "metadata"))
        return self._register(name, address, plain)

    @both
    async def remove_endpoint(self, name: str) -> bool:
        """Take back what this attempt has published; False if it has nothing of that name."""
        body = EndpointRemoveRequest(*self.identity.lease, name)
        return (await self._call(REMOVE_PATH, body, Changed)).changed

    limit = both(wait_for_turn)

    @both
    def event(self, kind: str, /, **payload: Any) -> Coroutine[Any, Any, None]:
        """Write an event of this attempt, such as `ctx.event("loaded", rows=3)`.

        Its type is then `user:loaded`; `client.jobs.events(job_id, type="user")` lists all of them.
        Raises LeaseConflict if the attempt has ended.
        """
        body = describe_event(self.identity.lease, kind, payload)
        return self._write_event(body)

    async def _write_event(self, body: TaskEventRequest) -> None:
        await self._call(WRITE_PATH, body, Nothing)

    async def _register(self, name: str, address: str, metadata: dict[str, Any] | None) -> None:
        body = EndpointRegisterRequest(*self.identity.lease, name, address, metadata)
        await self._call(REGISTER_PATH, body, EndpointStatus)

    async def _call(self, path: str, body: Any, returns: type[Answer]) -> Answer:
        transport = self._connection().transport
        return await transport.insist(
            "POST",
            path,
            returns,
            body=body,
            headers=self.identity.lease.headers(),
            seconds_max=_CALL_SECONDS_MAX,
        )


def list_outputs(context: Context) -> list[OutputEntry]:
    """List what an attempt has written so far."""
    return context.output.entries if "output" in context.__dict__ else []


def describe_event(lease: Lease, kind: str, payload: dict[str, Any]) -> TaskEventRequest:
    """Describe an event of user code; sent twice, it is kept once."""
    text = _encode(payload, "payload")
    return TaskEventRequest(*lease, kind, text, uuid4().hex)


def find_lease(server: str) -> Lease | None:
    """Find the lease that this code runs under, if this server has granted it.

    A function has it in its context, a command in its environment.
    """
    context = current.get()
    if context is not None and context.identity.server == server:
        return context.identity.lease
    task_id, attempt, token = (os.environ.get(name) for name in _LEASE_VARIABLES)
    is_ours = os.environ.get(VARIABLE, "").rstrip("/") == server
    if not (is_ours and task_id and attempt and token):
        return None
    try:
        return Lease(task_id, int(attempt), UUID(token))
    except ValueError as error:
        raise Invalid(
            ", ".join(_LEASE_VARIABLES[1:]), f"are not those of a task: {error}; unset them"
        ) from error


class ClientSpeaker:
    """Who speaks by a client: the token it was given; within a task, that of its job, or its lease.

    A function that shares its worker's process never shows the worker's token.
    """

    def __init__(self, server: str, token: str | None) -> None:
        self._server = server
        self._opener = current.get()
        self._is_given = token is not None
        is_own = self._is_given or self._opener is None
        self._token = Token(token) if is_own else UNNAMED

    def headers(self) -> Mapping[str, str]:
        """Give the headers that say who calls."""
        shown = self._choose().headers()
        if shown or self._is_given:
            return shown
        lease = find_lease(self._server)
        if lease is None and self._opener is not None:  # a thread that the task has started
            identity = self._opener.identity
            lease = identity.lease if identity.server == self._server else None
        return {} if lease is None else lease.headers()

    def read_again(self, refused: Mapping[str, str]) -> bool:
        """Look again for a token that was refused; a lease has no other."""
        return AUTHORIZATION in refused and self._choose().read_again(refused)

    def _choose(self) -> Token:
        context = current.get() or self._opener
        return self._token if self._is_given or context is None else context._own_token


def _encode(value: Any, field: str) -> msgspec.Raw:
    try:
        return msgspec.Raw(encode_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(field, f"cannot be written as JSON ({error})") from error
