"""A server, workers and the ledger around them, told in domain words."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from holdfast.client.both import LoopThread
from holdfast.client.transport import Transport
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.ids import TaskId, parse_task_id
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.cancel import cancel_task
from holdfast.operations.register import drain
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.server import Address, RunningServer, serve
from holdfast.services.runtime import Options
from holdfast.services.waking.sqs import SqsPublisher
from holdfast.wire.answers import TaskClaimAnswer
from holdfast.wire.requests import TaskClaimRequest
from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.claimed.attempt import Attempt, JobCache
from holdfast.worker.claimed.options import WorkerOptions
from holdfast.worker.claimed.worker import Worker
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.slots import take_slot
from tests.embedded.users import ROOT
from tests.waiting import eventually

PROGRAM = Path(__file__).with_name("live_worker.py")
SAMPLES = "tests.worker.sample_tasks"
QUEUE = "q"


def call(name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Write the entrypoint of a sample function."""
    return {"function": f"{SAMPLES}:{name}", "args": list(args), "kwargs": kwargs}


class Workplace:
    """One server, any number of workers, and what the tables say."""

    def __init__(self, server: RunningServer, ledger: Any, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._ledger = ledger
        self._workers: list[tuple[Worker, asyncio.Task[None]]] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.server.url

    async def submit(
        self, entrypoint: dict[str, Any], inputs: list[Any] | None = None, **spec: Any
    ) -> str:
        """Submit a job; returns the id of its first task."""
        fields = {"entrypoint": entrypoint, "queue": QUEUE} | spec
        listed = None if inputs is None else parse_inputs(inputs)
        submission = Submission(parse_spec(fields), listed)
        submitted = await self.server.runtime.writers.submit(submission)
        return f"{submitted.job_id}.0"

    def hire(self, **options: Any) -> tuple[Worker, asyncio.Task[None]]:
        """Start a worker in this loop; returns it and its run."""
        slot = take_slot(self.folder / "slots")
        known: dict[str, Any] = {"server": self.url, "queues": (QUEUE,), "drain_seconds": 0.0}
        known["allowed"] = EVERYTHING
        folder = self.folder / f"slot-{slot.number}"
        worker = Worker(WorkerOptions(folder=folder, **known | options), slot)
        running = asyncio.create_task(worker.run())
        running.add_done_callback(lambda _: slot.close())
        self._workers.append((worker, running))
        return worker, running

    def launch(self, **options: Any) -> subprocess.Popen[bytes]:
        """Start a worker as a process, to be killed; it finds modules in the folder, too."""
        chosen = {"server": self.url, "queues": [QUEUE]} | options
        command = [sys.executable, str(PROGRAM), str(self.folder), json.dumps(chosen)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(self.folder)])}
        process = subprocess.Popen(command, env=environment)
        self._processes.append(process)
        return process

    async def claim(self, count: int = 1, worker_id: str = "w") -> list[Attempt]:
        """Claim tasks without a worker."""
        body = TaskClaimRequest(worker_id, queues=[QUEUE], max_tasks=count)
        sent_at = boot_clock()
        async with Transport(self.url) as transport:
            answer = await transport.call(
                "POST", "/internal/task-claim", TaskClaimAnswer, body=body
            )
        jobs = JobCache()
        return [Attempt(claim, jobs.decode(claim.job), sent_at) for claim in answer.claims]

    async def close(self) -> None:
        """End every worker; one in this loop must not have failed."""
        for worker, _ in self._workers:
            worker.drain()
            worker.drain()
        for process in self._processes:
            process.kill()
            await asyncio.to_thread(process.wait)
        await asyncio.gather(*(running for _, running in self._workers if not running.done()))

    async def cancel(self, task_id: str, mode: CancelMode = "hard") -> None:
        """Cancel a task."""
        ledger = self.server.runtime.ledger
        assert await cancel_task(ledger, parse_task_id(task_id), mode, actor="tester")

    async def drain(self, worker_id: str) -> None:
        """Have the server ask a worker to leave."""
        runtime = self.server.runtime
        assert await drain(runtime.ledger, worker_id, actor="tester")
        runtime.stops.see(worker_id)
        await runtime.stops.note_workers()  # as every few seconds

    async def fetch(self, query: str, *arguments: Any) -> list[Any]:
        """Read the tables as they are."""
        rows: list[Any] = await self._ledger.fetch(query, *arguments)
        return rows

    async def execute(self, statements: str) -> None:
        """Change the database behind everybody's back."""
        await self._ledger.execute(statements)

    async def about(self, table: str, task_id: str) -> list[Any]:
        """Read what a table has of a task."""
        place: TaskId = parse_task_id(task_id)
        where = "where job_id = $1 and task_index = $2"
        return await self.fetch(f"select * from holdfast.{table} {where}", *place)

    async def state(self, task_id: str) -> str:
        """Read a task's state."""
        [task] = await self.about("tasks", task_id)
        return TaskState(task["state"]).name

    async def reach(self, task_id: str, state: str, *, seconds: float = 30.0) -> Any:
        """Wait until a task is in a state; returns its row."""

        async def reached() -> Any:
            [task] = await self.about("tasks", task_id)
            return task if TaskState(task["state"]).name == state else None

        return await eventually(reached, seconds=seconds)

    async def attempts(self, task_id: str) -> list[Any]:
        """Read the attempts of a task that have ended, in order."""
        return sorted(await self.about("attempts", task_id), key=lambda row: row["attempt"])

    async def ended(self, task_id: str, count: int = 1) -> Any:
        """Wait until so many attempts of a task have ended and been released; returns the last."""

        async def last() -> Any:
            rows = await self.attempts(task_id)
            is_there = len(rows) >= count and rows[count - 1]["released_at"] is not None
            return rows[count - 1] if is_there else None

        return await eventually(last)

    async def log(self, task_id: str) -> bytes:
        """Read the output of a task's attempts."""
        rows = await self.about("logs", task_id)
        rows.sort(key=lambda row: (row["attempt"], row["start_offset"]))
        return b"".join(row["content"] for row in rows)

    async def notes(self, task_id: str) -> list[Any]:
        """Read the notes of a task, in order."""
        return sorted(await self.about("notes", task_id), key=lambda row: row["id"])


def _options(database_url: str, transports: Sequence[SqsPublisher] = ()) -> Options:
    limits = Limits(lease_seconds_min=0.5)
    return Options(database_url, limits=limits, transports=transports)


@contextmanager
def serving_elsewhere(database_url: str) -> Iterator[str]:
    """Run a server on a loop of its own, for the time of a block; yields its URL."""
    thread = LoopThread("server")
    stack = AsyncExitStack()
    serving = serve(_options(database_url), Address(port=0))
    try:
        yield thread.run(stack.enter_async_context(serving)).url
    finally:
        thread.run(stack.aclose())
        thread.stop()


@asynccontextmanager
async def open_workplace(
    database_url: str, folder: Path, *, transports: Sequence[SqsPublisher] = ()
) -> AsyncIterator[Workplace]:
    """Run a server for the time of a block; leases may be short there."""
    ledger = await asyncpg.connect(database_url)
    try:
        async with serve(_options(database_url, transports), Address(port=0)) as server:
            workplace = Workplace(server, ledger, folder)
            try:
                yield workplace
            finally:
                await workplace.close()
    finally:
        await ledger.close()
