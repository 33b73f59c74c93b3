"""Jobs that are submitted in one call: collected within a block, and sent at its end or never."""

import contextvars
from typing import TYPE_CHECKING, Any, Self

import msgspec

from holdfast.client.context import current
from holdfast.client.functions.kinds import Kind
from holdfast.client.job import Job
from holdfast.client.outcome import ANYTHING
from holdfast.client.submission import submit_requests
from holdfast.errors import Invalid
from holdfast.model.addresses import without_login
from holdfast.wire.requests import JobRequest

if TYPE_CHECKING:
    from holdfast.client.client import Client

_in_use: contextvars.ContextVar["Graph | None"] = contextvars.ContextVar(
    "holdfast_graph", default=None
)


class Graph:
    """A block within which jobs are collected: submitted all together at its end, or none of them.

    A job that stands among the arguments of another one, or in its `depends_on`, comes before it.
    """

    def __init__(self, client: "Client | None" = None) -> None:
        self.jobs: list[Job[Any]] = []
        self._client = client
        self._requests: list[JobRequest] = []
        self._names: dict[Job[Any], str] = {}
        self._opener = current.get()
        self._is_open = False

    def __enter__(self) -> Self:
        from holdfast.client.client import find_client

        within = _in_use.get()
        if within is not None and within._is_open:
            raise Invalid("graph", "is open already; its jobs are sent when its own block ends")
        if self.jobs:
            raise Invalid("graph", "has had its block; make another one")
        self._client = self._client or find_client()
        self._is_open = True
        _in_use.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        client = self._close()
        if kind is None:
            client.loop_thread.run(self._send(client))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        client = self._close()
        if kind is None:
            await client.loop_thread.await_(self._send(client))

    def collects_for(self, client: "Client") -> bool:
        """Tell whether what is submitted here by a client belongs into this graph."""
        is_ours = self._client is not None and self._client.server == client.server
        return self._is_open and is_ours and self._opener is current.get()

    async def add(self, request: JobRequest, returns: Kind = ANYTHING) -> Job[Any]:
        """Take in a job; on the client's own loop, so one after the other."""
        assert self._client is not None, "a job is added to a graph without its block"
        # By its position: the same program makes the same graph, under the same keys.
        name = f"job-{len(self.jobs) + 1}"
        inputs = request.inputs
        num_tasks = (request.replicas or 1) if inputs is None else len(inputs)
        job: Job[Any] = Job(self._client, None, num_tasks, returns=returns)
        self._requests.append(msgspec.structs.replace(request, local_name=name))
        self._names[job] = name
        self.jobs.append(job)
        return job

    def name_of(self, job: Job[Any]) -> str:
        """Name a job for others of this graph: those submitted before have an id."""
        return self._names.get(job) or job.id

    def _close(self) -> "Client":
        assert self._client is not None, "a block ends that never began"
        self._is_open = False
        _in_use.set(None)
        return self._client

    async def _send(self, client: "Client") -> None:
        if self._requests:
            answers = await submit_requests(client, self._requests)
            for job, answer in zip(self.jobs, answers.jobs, strict=True):
                job._id = answer.job_id


def graph() -> Graph:
    """Collect what is submitted within a block, by the client in use, and submit it at its end."""
    return Graph()


def collect_by(client: "Client") -> Graph:
    """Collect what a client submits within a block, and submit it at its end."""
    return Graph(client)


def find_graph(client: "Client") -> Graph | None:
    """Find the graph that collects what this client submits here and now."""
    found = _in_use.get()
    return found if found is not None and found.collects_for(client) else None


def refer(client: "Client", job: Job[Any]) -> str:
    """Name a job as the server of this client knows it, or will know it."""
    if job.server != client.server:
        theirs, ours = without_login(job.server), without_login(client.server)
        raise Invalid("depends_on", f"{job} is of {theirs}, and not of {ours}")
    found = find_graph(client)
    return job.id if found is None else found.name_of(job)
