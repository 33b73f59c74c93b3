"""The Python client: submit functions and commands, and read what became of them."""

import asyncio
import atexit
import getpass
import os
import tempfile
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, Unpack

import msgspec

from holdfast.client import streams
from holdfast.client.both import Bound, LoopThread, both, both_stream
from holdfast.client.bundle import pack
from holdfast.client.codec import Codec, PayloadCodec, default_codec, encode_request, read_codec
from holdfast.client.context import ClientSpeaker, Lease, current
from holdfast.client.context import Context as TaskContext
from holdfast.client.datasets import create_dataset, list_datasets, name_dataset
from holdfast.client.endpoints import get_address, list_endpoints
from holdfast.client.functions.kinds import Kind
from holdfast.client.graph import collect_by, find_graph, refer
from holdfast.client.job import Job
from holdfast.client.namespaces.actions import Actions
from holdfast.client.namespaces.dead_letters import DeadLetters
from holdfast.client.namespaces.events import Events
from holdfast.client.namespaces.functions import Functions
from holdfast.client.namespaces.jobs import Jobs
from holdfast.client.namespaces.limits import Limits
from holdfast.client.namespaces.overview import Overviews
from holdfast.client.namespaces.queues import Queues
from holdfast.client.namespaces.schedules import Schedules
from holdfast.client.namespaces.servers import Servers
from holdfast.client.namespaces.shares import Shares
from holdfast.client.namespaces.tasks import Tasks
from holdfast.client.namespaces.tokens import Tokens
from holdfast.client.namespaces.types import Types
from holdfast.client.namespaces.workers import Workers
from holdfast.client.outcome import ANYTHING
from holdfast.client.request import request_call, request_command
from holdfast.client.signals import SendsSignals
from holdfast.client.submission import submit_request
from holdfast.client.task import GivenOptions, TaskFunction
from holdfast.client.transport import Transport, find_server
from holdfast.errors import Invalid
from holdfast.model.addresses import without_login
from holdfast.model.work.ids import parse_job_id, parse_task_id
from holdfast.wire.bundles import StoredBundle, bundle_path
from holdfast.wire.events import EventStreamQuery
from holdfast.wire.requests import JobRequest, LogQuery
from holdfast.wire.status import Event, JobStatus, SubmittedJob

Answer = TypeVar("Answer")
PATIENCE_SECONDS = 30.0
UPLOAD_SECONDS_MAX = 1800.0
FOLLOW_MS = 10_000
ACTOR_LENGTH_MAX = 256
# The clients of `with` blocks, the innermost last: of all threads, and of this one or coroutine.
_open_clients: list["Client"] = []
_own_clients: ContextVar[tuple["Client", ...]] = ContextVar("holdfast_clients", default=())
_shared_clients: dict[tuple[int, str, PayloadCodec | None], "Client"] = {}
_sharing = threading.Lock()


class Submits(Protocol):
    """A way to submit a function, of both faces; the job knows what the function returns."""

    def __call__(
        self, function: TaskFunction[Any, Answer], /, *args: Any, **kwargs: Any
    ) -> Job[Answer]:
        """Submit it and wait until the server has taken it in."""

    async def aio(
        self, function: TaskFunction[Any, Answer], /, *args: Any, **kwargs: Any
    ) -> Job[Answer]:
        """Submit it and await that the server has taken it in."""


async def _upload(client: "Client", folder: str | os.PathLike[str]) -> str:
    """Upload a folder, unless the server has it; returns the hash to give as a job's `bundle`."""
    # A thread that still packs when the call is broken off finds its folder gone, and ends.
    with tempfile.TemporaryDirectory(
        prefix="holdfast-bundle-", ignore_cleanup_errors=True
    ) as temporary:
        file = Path(temporary) / "bundle.zip"
        bundle = await asyncio.to_thread(pack, folder, file)
        path = bundle_path(bundle.hash)
        if await client._transport.find_size(path) != bundle.size:
            await client._transport.insist(
                "PUT",
                path,
                StoredBundle,
                body=file,
                seconds_max=UPLOAD_SECONDS_MAX,
                patience=client._patience,
            )
    return bundle.hash


class Client(SendsSignals):
    """A connection to a server: HOLDFAST_SERVER, or the local one; within a task, the task's own.

    A server that asks for a token is shown the one given, or that of HOLDFAST_TOKEN; within a task
    without one, its lease, by which it may submit children and see to them.

    A codec encodes what functions are called with, and decodes what they return: docs/codec.md.
    By default it is that of the task, or what HOLDFAST_CODEC names; None is none.

    Within `with` it is the client that `function.submit` uses. Methods block; each has an `.aio`.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        patience: float = PATIENCE_SECONDS,
        ca_file: str | None = None,
        codec: Codec | PayloadCodec | str | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> None:
        context = current.get()
        if server is None and context is not None:
            server = context.identity.server
        self.server = find_server(server)
        self.codec = default_codec(context) if codec is msgspec.UNSET else read_codec(codec)
        self._patience = patience
        self._opener = context
        self._opened_by = 0
        self._thread: LoopThread | None = None
        speaker = ClientSpeaker(self.server, token)
        self._transport = Transport(self.server, actor=_user(), speaker=speaker, ca_file=ca_file)
        self.jobs = Jobs(self)
        self.events = Events(self)
        self.tasks = Tasks(self)
        self.queues = Queues(self)
        self.limits = Limits(self)
        self.shares = Shares(self)
        self.actions = Actions(self)
        self.overview = Overviews(self)
        self.workers = Workers(self)
        self.servers = Servers(self)
        self.types = Types(self)
        self.schedules = Schedules(self)
        self.tokens = Tokens(self)
        self.functions = Functions(self)
        self.dead_letters = DeadLetters(self)

    def __enter__(self) -> Self:
        self.open()
        self._opened_by = threading.get_ident()
        _own_clients.set((*_own_clients.get(), self))
        _open_clients.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _own_clients.set(tuple(each for each in _own_clients.get() if each is not self))
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        # A coroutine's blocks are known in its own context alone, and not in that of a thread.
        await asyncio.to_thread(self.close)
        self.__exit__()

    def open(self) -> None:
        """Start the thread that talks to the server."""
        if self._thread is None:
            self._thread = LoopThread("holdfast-client")
            self._thread.run(self._transport.__aenter__())

    def close(self) -> None:
        """Close every connection; what has been submitted goes on."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with suppress(ValueError):
                _open_clients.remove(self)
            thread.stop(self._transport.__aexit__())

    @property
    def loop_thread(self) -> LoopThread:
        """Where calls to the server run."""
        if self._thread is None:
            raise Invalid("client", "is not open; use it in a `with` block")
        return self._thread

    @property
    def submit(self) -> Submits:
        """Submit one call of a function as a job of one task."""
        bound: Bound[..., Job[Any]] = Bound(Client._submit_call, self)
        return bound

    @property
    def map(self) -> Submits:
        """Submit one job with one task per input, which comes first among the arguments."""
        bound: Bound[..., Job[Any]] = Bound(Client._submit_map, self)
        return bound

    upload = both(_upload)
    endpoint = both(get_address)
    endpoints = both(list_endpoints)
    graph = collect_by
    create_dataset = both(create_dataset)
    dataset = name_dataset
    datasets = both(list_datasets)

    @both
    def run_command(
        self,
        command: Sequence[str] | str,
        /,
        *,
        inputs: Iterable[Any] | None = None,
        **options: Unpack[GivenOptions],
    ) -> Coroutine[Any, Any, Job[None]]:
        """Submit a command, a list of words or a line for the shell, with options as of a task."""
        request = request_command(command, options, inputs=inputs, refer=self._refer)
        return self._submit(encode_request(self.codec, request))

    @both
    async def job(self, job_id: str | int) -> Job[Any]:
        """Find a job that was submitted before."""
        path = f"/api/jobs/{parse_job_id(str(job_id))}"
        status = await self.read(path, JobStatus)
        return Job(self, status.job_id, status.num_tasks)

    @both_stream
    def logs(
        self,
        task_id: str,
        *,
        attempt: int | None = None,
        follow: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Read the output of a task's attempt, the latest by default; `tail` is its last lines."""
        return self.read_log(task_id, attempt=attempt, follow=follow, tail=tail)

    @both_stream
    def follow_events(
        self, *, job_id: str | None = None, type: str | None = None, after: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """Follow events as they happen, until the caller has seen enough."""
        query = EventStreamQuery(job_id, type, after)
        return streams.follow_events(self._transport, query, patience=self._patience)

    def read_log(
        self, task_id: str, *, attempt: int | None, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Read the output of a task's attempt."""
        query = LogQuery(attempt, follow=follow, tail=tail)
        task = str(parse_task_id(task_id))
        return streams.read_log(self._transport, task, query, patience=self._patience)

    async def read(self, path: str, returns: type[Answer], *, query: Any = None) -> Answer:
        """Read a route; tried again while the server is away, but for no longer than patience."""
        waited_for = getattr(query, "wait_ms", 0) / 1000
        return await self._transport.insist(
            "GET",
            path,
            returns,
            query=query,
            seconds_max=self._patience + waited_for,
            patience=self._patience,
        )

    async def change(
        self,
        path: str,
        body: Any,
        returns: type[Answer],
        *,
        method: str = "POST",
        lease: Lease | None = None,
    ) -> Answer:
        """Call a route that changes something and may be repeated; perhaps for an attempt."""
        return await self._transport.insist(
            method,
            path,
            returns,
            body=body,
            headers=None if lease is None else lease.headers(),
            seconds_max=self._patience,
        )

    def _submit_call(
        self, function: TaskFunction[Any, Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Job[Any]]:
        request = request_call(function, args, kwargs, refer=self._refer, codec=self.codec)
        return self._submit(request, function.returns)

    def _submit_map(
        self, function: TaskFunction[Any, Any], inputs: Iterable[Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Job[Any]]:
        request = request_call(
            function, args, kwargs, inputs=inputs, refer=self._refer, codec=self.codec
        )
        return self._submit(request, function.returns)

    def _submit(
        self, request: JobRequest, returns: Kind = ANYTHING
    ) -> Coroutine[Any, Any, Job[Any]]:
        graph = find_graph(self)
        return self._send(request, returns) if graph is None else graph.add(request, returns)

    async def _send(self, request: JobRequest, returns: Kind) -> Job[Any]:
        answer = await submit_request(self, request, SubmittedJob)
        return Job(self, answer.job_id, answer.num_tasks, returns=returns)

    def _refer(self, job: Job[Any]) -> str:
        return refer(self, job)


def submit_for(context: TaskContext) -> Submits:
    """Give the way to submit in the name of an attempt, whatever thread it is used in."""

    async def send(client: Client, request: JobRequest, returns: Kind) -> Job[Any]:
        current.set(context)  # of this call alone
        return await client._submit(request, returns)

    def submit_call(
        client: Client, function: TaskFunction[Any, Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Job[Any]]:
        request = request_call(function, args, kwargs, refer=client._refer, codec=client.codec)
        return send(client, request, function.returns)

    bound: Bound[..., Job[Any]] = Bound(submit_call, _share_for(context))
    return bound


def find_client() -> Client:
    """Give the client of the innermost `with` block, or one that this process shares.

    Blocks of this thread or coroutine come first, then those of others. A task's blocks are its
    own; without one its client is that of the server it was claimed from.
    """
    context = current.get()
    found = [client for client in [*_open_clients] if client._opener is context]
    if not found:
        return share_client(find_server(None)) if context is None else _share_for(context)
    own = [client for client in _own_clients.get() if client in found]
    client = own[-1] if own else _choose_of_others(found)
    is_inherited = client._thread is not None and client._thread.is_forked
    return share_client(client.server, client.codec) if is_inherited else client


def _choose_of_others(found: Sequence[Client]) -> Client:
    """Choose the innermost block, unless which one it is depends on who was quicker."""
    servers = sorted({without_login(client.server) for client in found})
    if len(servers) > 1 and len({client._opened_by for client in found}) > 1:
        raise Invalid(
            "client", f"is open in other threads for {' and '.join(servers)}; open one in this one"
        )
    return found[-1]


def _share_for(context: TaskContext) -> Client:
    return share_client(find_server(context.identity.server), context.codec)


def share_client(
    server: str, codec: PayloadCodec | msgspec.UnsetType | None = msgspec.UNSET
) -> Client:
    """Give the one client of this process for a server and a codec; it is closed at exit."""
    if codec is msgspec.UNSET:
        codec = default_codec(None)
    key = (os.getpid(), server, codec)
    with _sharing:
        client = _shared_clients.get(key)
        if client is None:
            # Of no task, whichever is the first to use it: each call is made by whoever makes it.
            client = _shared_clients[key] = Context().run(Client, server, codec=codec)
            client.open()
            atexit.register(client.close)
    return client


def close_shared(server: str) -> None:
    """Close the shared clients for a server, if there are any."""
    with _sharing:
        keys = [key for key in _shared_clients if key[:2] == (os.getpid(), server)]
        clients = [_shared_clients.pop(key) for key in keys]
    for client in clients:
        atexit.unregister(client.close)
        client.close()


def _user() -> str:
    """Say who this is, in letters that a header can carry."""
    with suppress(OSError, KeyError):
        name = getpass.getuser().encode("ascii", "backslashreplace").decode()
        if name.isprintable():
            return name[:ACTOR_LENGTH_MAX]
    return "client"
