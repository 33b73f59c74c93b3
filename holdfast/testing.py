"""The whole system within the test process: Postgres, a server, a worker, a client.

    with holdfast.testing.running(queues=["emails"]) as system:
        assert send.submit("a@example.com").result(timeout=30) == "sent"

Each block has a database of its own, on a Postgres that the process starts when it needs one and
stops at its end. For pytest there is the fixture `holdfast_system`: `from holdfast.testing import
holdfast_system`, or `pytest_plugins = ["holdfast.testing"]`. What still runs when a block ends is
given a moment, then interrupted; a function that nothing can interrupt ends the test process. So
does one that runs on past its timeout, in the middle of a test: `isolation="process"` gives every
function a process of its own, and spares the tests.
"""

import asyncio
import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

import asyncpg
import pytest
from anyio.from_thread import start_blocking_portal

from holdfast.client.client import Client, close_shared
from holdfast.client.job import Job
from holdfast.client.pages import read_pages
from holdfast.client.task import decorated
from holdfast.embedded import EmbeddedPostgres
from holdfast.model.work.states import LIVE_STATES, parse_state
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.store.migrate import migrate
from holdfast.wire.requests import JobListQuery
from holdfast.wire.status import JobPage, JobStatus
from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.announcing import announce_all
from holdfast.worker.claimed.options import WorkerOptions
from holdfast.worker.claimed.worker import Worker
from holdfast.worker.slots import take_slot

DRAIN_SECONDS = 10.0
ANY_PORT = Address(port=0)
PAGE_SIZE = 1000
# Nothing here has to outlive the machine.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class System:
    """A running system; its client is the one that `function.submit` uses."""

    client: Client
    url: str
    database_url: str

    def wait_all(self, timeout: float = 60.0) -> None:
        """Wait until every job has ended; TimeoutError names one that has not."""
        ends_at = time.monotonic() + timeout
        while True:
            jobs = self._list_jobs()
            live = [job for job in jobs if parse_state(job.state) in LIVE_STATES]
            for job in live:
                waited: Job[object] = Job(self.client, job.job_id, job.num_tasks)
                waited.wait(max(ends_at - time.monotonic(), 0.0))
            newest = self.client.jobs.list(count_max=1).jobs
            # Jobs that were still running while the first page was read may have submitted others.
            if not live and [job.job_id for job in newest] == [job.job_id for job in jobs[:1]]:
                return

    def _list_jobs(self) -> list[JobStatus]:
        """List all jobs, the newest first."""
        return self.client.loop_thread.run(self._read_jobs())

    async def _read_jobs(self) -> list[JobStatus]:
        query = JobListQuery(page_size=PAGE_SIZE)
        pages = read_pages(self.client.read, "/api/jobs", JobPage, query=query)
        return [job async for page in pages for job in page.jobs]


@contextmanager
def running(
    *,
    queues: Sequence[str] = ("default",),
    concurrency: int = 10,
    isolation: Literal["auto", "process"] = "auto",
    codec: str | None = None,
) -> Iterator[System]:
    """Run a system for the time of a block; nothing of it is left at the end.

    The worker and the client encode by the codec, `module:object`, if there is one.
    """
    # A loop for each, as there is a process for each elsewhere.
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-worker-") as folder,
        start_blocking_portal() as servers,
        start_blocking_portal() as workers,
        servers.wrap_async_context_manager(_throwaway_database()) as database_url,
        servers.wrap_async_context_manager(
            serve(_options(database_url, folder), ANY_PORT)
        ) as server,
        Client(server.url, codec=codec) as client,
    ):
        options = WorkerOptions(
            server=server.url,
            queues=tuple(queues),
            folder=Path(folder),
            allowed=EVERYTHING,
            concurrency=concurrency,
            isolation=isolation,
            codec=codec,
            name="testing",
            drain_seconds=DRAIN_SECONDS,
        )
        try:
            with workers.wrap_async_context_manager(_working(options)):
                yield System(client, server.url, database_url)
        finally:
            close_shared(server.url)


@pytest.fixture
def holdfast_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A running system; it serves the queue `default`, or those of an indirect parameter."""
    with running(queues=getattr(request, "param", ["default"])) as system:
        yield system


def pytest_unconfigure() -> None:
    """Stop Postgres at the end of a pytest session."""
    _postgres.stop()


def _options(database_url: str, folder: str) -> Options:
    return Options(database_url, object_store=str(Path(folder) / "objects"))


@asynccontextmanager
async def _working(options: WorkerOptions) -> AsyncIterator[None]:
    with closing(take_slot(options.folder)) as slot:
        worker = Worker(options, slot)
        await announce_all(options.server, worker.credential, decorated.values())
        working = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.drain()
            await working


@asynccontextmanager
async def _throwaway_database() -> AsyncIterator[str]:
    postgres = await asyncio.to_thread(_postgres.start)
    name = f"testing_{uuid4().hex}"
    admin = await asyncpg.connect(postgres.url())
    try:
        await admin.execute(f"create database {name}")
        try:
            await migrate(postgres.url(name))
            yield postgres.url(name)
        finally:
            await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


class _Postgres:
    """The Postgres of this process, started by the first who needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._folder = Path()
        self._server: EmbeddedPostgres | None = None

    def start(self) -> EmbeddedPostgres:
        """Start it, unless it runs; that of a process this one was forked from is not ours."""
        with self._lock:
            if self._server is None or self._pid != os.getpid():
                folder = Path(tempfile.mkdtemp(prefix="holdfast-testing-"))
                server = EmbeddedPostgres(folder / "postgres", settings=_SETTINGS)
                self._pid, self._folder, self._server = os.getpid(), folder, server
                server.start()
            return self._server

    def stop(self) -> None:
        """Stop it, if it runs, and leave nothing of it; the next block starts another."""
        with self._lock:
            if self._server is not None and self._pid == os.getpid():
                self._server.stop()
                shutil.rmtree(self._folder)
                self._server = None


_postgres = _Postgres()
atexit.register(_postgres.stop)
