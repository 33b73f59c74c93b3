"""procrastinate: its async worker, with uvloop and psycopg, ten tasks at a time."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector, sql  # type: ignore[import-not-found]

from benchmarks.peers.script import Put, Run, await_start, main, watched

CONCURRENCY = 10
FILL_BATCH = 1000


class ObservedConnector(PsycopgConnector):  # type: ignore[misc]
    """The library's connections; tells a run of the first fetch and of what is acknowledged."""

    run: Run | None = None

    async def execute_query_one_async(self, query: str, **arguments: Any) -> Any:
        """Run a statement that returns a row; one of them fetches a task."""
        if self.run and query == sql.queries["fetch_job"]:
            self.run.fetch()
        return await super().execute_query_one_async(query, **arguments)

    async def execute_query_async(self, query: str, **arguments: Any) -> None:
        """Run a statement, committed when it returns; one of them acknowledges a task."""
        await super().execute_query_async(query, **arguments)
        if self.run and query == sql.queries["finish_job"]:
            self.run.acknowledge(1)


async def noop(**task_input: object) -> None:
    """Take a task and return."""


class ProcrastinatePeer:
    """procrastinate at its commands."""

    async def install(self, url: str) -> None:
        """Create its tables."""
        app = _app(url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def fill(self, url: str, count: int, task_input: str) -> float:
        """Defer batches of tasks, one statement a batch."""
        app = _app(url)
        async with app.open_async():
            started = time.perf_counter()
            for done in range(0, count, FILL_BATCH):
                inputs = [json.loads(task_input)] * min(FILL_BATCH, count - done)
                await app.tasks["noop"].batch_defer_async(*inputs)
            return time.perf_counter() - started

    @asynccontextmanager
    async def producing(self, url: str) -> AsyncIterator[Put]:
        """Defer one task at a time."""
        app = _app(url)
        async with app.open_async():
            yield lambda number: app.tasks["noop"].defer_async(n=number)

    async def work(self, url: str, run: Run) -> None:
        """Run the worker until all is acknowledged."""
        started = run.started

        async def tell(n: int) -> None:
            assert started is not None
            started(n)

        app = _app(url, tell if started else noop)
        app.connector.run = run
        async with app.open_async():
            await_start()
            worker = asyncio.create_task(
                app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
            )
            run.stop = worker.cancel
            async with watched(run):
                with contextlib.suppress(asyncio.CancelledError):
                    await worker


def _app(url: str, function: Callable[..., Awaitable[None]] = noop) -> Any:
    # It would warn that its app stands in the main module, which is as meant here.
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = App(connector=ObservedConnector(conninfo=url))
    app.task(name="noop")(function)
    return app


if __name__ == "__main__":
    uvloop.run(main(ProcrastinatePeer()))
