"""pgqueuer: its worker as `pgq run` starts it, with uvloop and asyncpg, in batches of 100."""

import time
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from benchmarks.peers.script import Drain, await_start, main

BATCH = 100
FILL_BATCH = 1000


class ObservedQueries(Queries):  # type: ignore[misc]
    """The library's statements; tells the drain of the first fetch and of what is acknowledged."""

    drain: Drain

    async def dequeue(self, *args: Any, **options: Any) -> Any:
        """Fetch a batch."""
        self.drain.fetch()
        return await super().dequeue(*args, **options)

    async def log_jobs(self, job_status: list[Any]) -> None:
        """Acknowledge a batch: one statement, committed when it returns."""
        await super().log_jobs(job_status)
        self.drain.acknowledge(len(job_status))


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

    async def work(self, url: str, drain: Drain) -> None:
        """Run the worker until all is acknowledged."""
        connection = await asyncpg.connect(url)
        driver = AsyncpgDriver(connection)
        queries = ObservedQueries(driver)
        queries.drain = drain
        worker = PgQueuer(driver, queries=queries)
        worker.entrypoint("noop")(noop)
        drain.stop = worker.shutdown.set
        await_start()
        await worker.run(batch_size=BATCH)
        await connection.close()


if __name__ == "__main__":
    uvloop.run(main(PgQueuerPeer()))
