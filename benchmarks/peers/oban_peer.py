"""oban: its async worker, with uvloop and psycopg, 500 tasks at a time."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from oban import Oban, worker  # type: ignore[import-not-found]
from oban.schema import install  # type: ignore[import-not-found]
from oban.telemetry import attach  # type: ignore[import-not-found]

from benchmarks.peers.script import Put, Run, await_start, main, watched

LIMIT = 500
DEBOUNCE_SECONDS = 0.05
FILL_BATCH = 1000
FETCH, ACKNOWLEDGED = "oban.producer.get.start", "oban.producer.ack.stop"
# The one run of this process: workers are found by name, and made by the library.
_runs: list[Run] = []


async def _take(_worker: object, job: Any) -> None:
    """Take a task and return; or tell when it started."""
    started = _runs[0].started
    if started is not None:
        started(job.args["n"])


# A worker of this library is a class with a method of that name; it is found by its own.
Noop: Any = worker(queue="bench")(type("Noop", (), {"process": _take}))


class ObanPeer:
    """oban at its commands."""

    async def install(self, url: str) -> None:
        """Create its tables."""
        pool = await Oban.create_pool(url)
        await install(pool)
        await pool.close()

    async def fill(self, url: str, count: int, task_input: str) -> float:
        """Enqueue lists of tasks, a transaction each."""
        pool = await Oban.create_pool(url)
        oban = Oban(pool=pool)
        began = time.perf_counter()
        for done in range(0, count, FILL_BATCH):
            jobs = [Noop.new(json.loads(task_input)) for _ in range(min(FILL_BATCH, count - done))]
            await oban.enqueue_many(*jobs)
        seconds = time.perf_counter() - began
        await pool.close()
        return seconds

    @asynccontextmanager
    async def producing(self, url: str) -> AsyncIterator[Put]:
        """Enqueue one task at a time."""
        pool = await Oban.create_pool(url)
        oban = Oban(pool=pool)
        yield lambda number: oban.enqueue(Noop.new({"n": number}))
        await pool.close()

    async def work(self, url: str, run: Run) -> None:
        """Run the worker until all is acknowledged; its telemetry tells."""
        pool = await Oban.create_pool(url)
        queue = {"limit": LIMIT, "debounce_interval": DEBOUNCE_SECONDS}
        oban = Oban(pool=pool, queues={"bench": queue})
        is_done = asyncio.Event()
        run.stop = is_done.set
        _runs.append(run)

        def tell(event: str, found: dict[str, Any]) -> None:
            if event == FETCH:
                run.fetch()
            elif found["count"]:
                run.acknowledge(found["count"])

        attach("bench", [FETCH, ACKNOWLEDGED], tell)
        await_start()
        async with watched(run):
            await oban.start()
            await is_done.wait()
        await oban.stop()
        await pool.close()


if __name__ == "__main__":
    uvloop.run(main(ObanPeer()))
