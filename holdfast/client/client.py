"""The Python client: submit functions and commands, and read what became of them."""

import base64
import getpass
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar
from uuid import uuid4

import msgspec

from holdfast.client.both import LoopThread, both
from holdfast.client.context import current
from holdfast.client.job import Job
from holdfast.client.task import TaskFunction, TaskOptions
from holdfast.client.transport import Transport, find_server
from holdfast.errors import Invalid
from holdfast.model.spec import Entrypoint
from holdfast.wire.raw import encode_json
from holdfast.wire.requests import (
    EventListQuery,
    EventStreamQuery,
    JobRequest,
    LogQuery,
)
from holdfast.wire.status import Event, EventPage, JobStatus, LogChunk, SubmittedJob

Answer = TypeVar("Answer")
PATIENCE_SECONDS = 30.0
SUBMIT_SECONDS_MAX = 300.0
FOLLOW_MS = 10_000
_open_clients: list["Client"] = []


class Client:
    """A connection to a server: HOLDFAST_SERVER, or the local one.

    Within `with` it is the client that `function.submit` uses. Methods block; each has an `.aio`.
    """

    def __init__(self, server: str | None = None, *, patience: float = PATIENCE_SECONDS) -> None:
        self.server = find_server(server)
        self._patience = patience
        self._thread: LoopThread | None = None
        self._transport = Transport(self.server, actor=_user())

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Start the thread that talks to the server."""
        if self._thread is None:
            self._thread = LoopThread("holdfast-client")
            self._thread.run(self._transport.__aenter__())
            _open_clients.append(self)

    def close(self) -> None:
        """Close every connection; what has been submitted goes on."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            _open_clients.remove(self)
            thread.run(self._transport.__aexit__())
            thread.stop()

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        if self._thread is None:
            raise Invalid("client", "is not open; use it in a `with` block")
        return self._thread

    @both
    async def submit(
        self, function: TaskFunction[Any, Answer], *args: Any, **kwargs: Any
    ) -> Job[Answer]:
        """Submit one call of a function as a job of one task."""
        function.check_arguments(args, kwargs)
        request = _request(function, list(args), kwargs, None)
        return await self._submit(request)

    @both
    async def map(
        self,
        function: TaskFunction[Any, Answer],
        inputs: Iterable[Any],
        *args: Any,
        **kwargs: Any,
    ) -> Job[Answer]:
        """Submit one job with one task per input."""
        listed = list(inputs)
        if not listed:
            raise Invalid("inputs", "is empty; give at least one input")
        function.check_arguments((listed[0], *args), kwargs)
        request = _request(function, list(args), kwargs, listed)
        return await self._submit(request)

    @both
    async def run_command(
        self,
        command: Sequence[str] | str,
        /,
        *,
        inputs: Iterable[Any] | None = None,
        queue: str = "default",
        **spec: Any,
    ) -> Job[None]:
        """Submit a command: a list of words, or a line for the shell."""
        entrypoint = (
            Entrypoint(shell=command)
            if isinstance(command, str)
            else Entrypoint(command=list(command))
        )
        texts = None if inputs is None else [_encode(i, f"inputs[{n}]") for n, i in _count(inputs)]
        fields = {"queue": queue, **spec}
        request = msgspec.convert({"entrypoint": {}, **fields}, JobRequest)
        request = msgspec.structs.replace(request, entrypoint=entrypoint, inputs=texts)
        return await self._submit(request)

    @both
    async def job(self, job_id: str | int) -> Job[Any]:
        """Find a job that was submitted before."""
        status = await self.read(f"/api/jobs/{job_id}", JobStatus)
        return Job(self, status.job_id, status.num_tasks)

    def logs(
        self, task_id: str, *, attempt: int | None = None, follow: bool = False
    ) -> Iterator[bytes]:
        """Read the output of a task's attempt, the latest by default."""
        offset = 0
        while True:
            query = LogQuery(attempt, offset, follow, FOLLOW_MS)
            path = f"/api/tasks/{task_id}/logs"
            chunk = self.loop_thread.run(self.read(path, LogChunk, query=query))
            if chunk.content:
                yield chunk.content
            offset, attempt = chunk.next_offset, chunk.attempt
            if chunk.is_complete or (not follow and not chunk.content):
                return

    def follow_events(
        self, *, job_id: str | None = None, type: str | None = None, after: str | None = None
    ) -> Iterator[Event]:
        """Follow events as they happen, until the caller has seen enough."""
        lines = self._event_lines(EventStreamQuery(job_id, type, after))
        while True:
            try:
                yield self.loop_thread.run(anext(lines))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return

    async def list_events(self, job_id: str) -> list[Event]:
        """List all events of a job."""
        events: list[Event] = []
        token: str | None = None
        while True:
            query = EventListQuery(page_token=token)
            page = await self.read(f"/api/jobs/{job_id}/events", EventPage, query=query)
            events += page.events
            token = page.next_page_token
            if token is None:
                return events

    async def read(self, path: str, returns: type[Answer], *, query: Any = None) -> Answer:
        """Read a route; tried again while the server is away."""
        return await self._transport.insist(
            "GET", path, returns, query=query, seconds_max=self._patience + FOLLOW_MS / 1000
        )

    async def change(self, path: str, body: Any, returns: type[Answer]) -> Answer:
        """Call a route that changes something and may be repeated."""
        return await self._transport.insist(
            "POST", path, returns, body=body, seconds_max=self._patience
        )

    async def _submit(self, request: JobRequest) -> Job[Any]:
        if request.idempotency_key is None:
            # A submission whose answer got lost can be sent again, and is still one job.
            request = msgspec.structs.replace(request, idempotency_key=f"auto-{uuid4()}")
        answer = await self._transport.insist(
            "POST", "/api/jobs", SubmittedJob, body=request, seconds_max=SUBMIT_SECONDS_MAX
        )
        return Job(self, answer.job_id, answer.num_tasks)

    async def _event_lines(self, query: EventStreamQuery) -> AsyncIterator[Event]:
        async for line in self._transport.follow("/api/events/stream", query, {}):
            if line.startswith(b"data:"):
                yield msgspec.json.decode(line[5:], type=Event)


def find_client() -> Client:
    """Give the client of the innermost `with` block, or one of its own for this process."""
    if not _open_clients:
        Client().open()
    return _open_clients[-1]


def _request(
    function: TaskFunction[Any, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    inputs: list[Any] | None,
) -> JobRequest:
    options = function.options
    entrypoint, texts = (
        _pickle(function, args, kwargs, inputs)
        if options.pickled
        else _by_path(function, args, kwargs, inputs)
    )
    return JobRequest(
        entrypoint=entrypoint,
        inputs=texts,
        max_retries_failure=options.retries,
        max_retries_preemption=options.preemption_retries,
        name=options.name or function.function.__name__,
        **_spec_fields(options),
    )


def _spec_fields(options: TaskOptions) -> dict[str, Any]:
    """Take what a job spec calls by the same name; what was left open stays open."""
    elsewhere = {"retries", "preemption_retries", "pickled", "isolation", "name"}
    fields = {name: getattr(options, name) for name in TaskOptions.__struct_fields__}
    if options.isolation == "process":
        fields["environment"] = {**(options.environment or {}), ISOLATION: "process"}
    return {
        name: value for name, value in fields.items() if name not in elsewhere and value is not None
    }


ISOLATION = "HOLDFAST_ISOLATION"


def _by_path(
    function: TaskFunction[Any, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    inputs: list[Any] | None,
) -> tuple[Entrypoint, list[msgspec.Raw] | None]:
    module = function.function.__module__
    if module == "__main__" or "<" in function.function.__qualname__:
        raise Invalid(
            "entrypoint",
            f"a worker cannot import {function.path}; put the function into a module, "
            "or use @task(pickled=True)",
        )
    plain_args = msgspec.json.decode(_encode(args, "args"))
    plain_kwargs = msgspec.json.decode(_encode(kwargs, "kwargs"))
    entrypoint = Entrypoint(function=function.path, args=plain_args, kwargs=plain_kwargs)
    if inputs is None:
        return entrypoint, None
    return entrypoint, [_encode(value, f"inputs[{n}]") for n, value in enumerate(inputs)]


def _pickle(
    function: TaskFunction[Any, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    inputs: list[Any] | None,
) -> tuple[Entrypoint, list[msgspec.Raw] | None]:
    import cloudpickle

    def pack(value: Any) -> str:
        return base64.b64encode(cloudpickle.dumps(value)).decode()

    entrypoint = Entrypoint(pickle=pack((function, args, kwargs)))
    if inputs is None:
        return entrypoint, None
    return entrypoint, [msgspec.Raw(encode_json(pack(value))) for value in inputs]


def _encode(value: Any, field: str) -> msgspec.Raw:
    try:
        return msgspec.Raw(encode_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            field, f"cannot be written as JSON ({error}); use @task(pickled=True) for objects"
        ) from error


def _count(inputs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    return zip(itertools.count(), inputs, strict=False)


def _user() -> str:
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "client"


__all__ = ["Client", "current", "find_client"]
