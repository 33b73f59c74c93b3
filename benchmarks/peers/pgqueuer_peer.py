"""pgqueuer: its worker as `pgq run` starts it, with uvloop and asyncpg, in batches of 100."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from benchmarks.peers.script import Put, Run, await_start, main, watched

BATCH = 100
FILL_BATCH = 1000


class ObservedQueries(Queries):  # type: ignore[misc]
    """The library's statements; tells the run of the first fetch and of what is acknowledged."""

    run: Run

    async def dequeue(self, *args: Any, **options: Any) -> Any:
        """Fetch a batch."""
        self.run.fetch()
        return await super().dequeue(*args, **options)

    async def log_jobs(self, job_status: list[Any]) -> None:
        """Acknowledge a batch: one statement, committed when it returns."""
        await super().log_jobs(job_status)
        self.run.acknowledge(len(job_status))


async def noop(job: object) -> None:
    """Take a task and return."""


class PgQueuerPeer:
    """pgqueuer at its commands."""

    async def install(self, url: str) -> None:
        """Create its tables."""
        connection = await asyncpg.connect(url)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def fill(self, url: str, count: int, task_input: str) -> float:
        """Enqueue lists of tasks, one statement a list."""
        connection = await asyncpg.connect(url)
        queries = Queries(AsyncpgDriver(connection))
        started = time.perf_counter()
        for done in range(0, count, FILL_BATCH):
            batch = min(FILL_BATCH, count - done)
            await queries.enqueue(["noop"] * batch, [task_input.encode()] * batch, [0] * batch)
        seconds = time.perf_counter() - started
        await connection.close()
        return seconds

    @asynccontextmanager
    async def producing(self, url: str) -> AsyncIterator[Put]:
        """Enqueue one task at a time over one connection."""
        connection = await asyncpg.connect(url)
        queries = Queries(AsyncpgDriver(connection))
        yield lambda number: queries.enqueue("noop", json.dumps({"n": number}).encode(), 0)
        await connection.close()

    async def work(self, url: str, run: Run) -> None:
        """Run the worker until all is acknowledged."""
        connection = await asyncpg.connect(url)
        driver = AsyncpgDriver(connection)
        queries = ObservedQueries(driver)
        queries.run = run
        worker = PgQueuer(driver, queries=queries)
        started = run.started

        async def tell(job: Any) -> None:
            assert started is not None
            started(json.loads(job.payload)["n"])

        worker.entrypoint("noop")(tell if started else noop)
        run.stop = worker.shutdown.set
        await_start()
        async with watched(run):
            await worker.run(batch_size=BATCH)
        await connection.close()


if __name__ == "__main__":
    uvloop.run(main(PgQueuerPeer()))
