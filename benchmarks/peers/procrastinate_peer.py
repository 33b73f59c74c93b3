"""procrastinate: its async worker, with uvloop and psycopg, ten tasks at a time."""

import asyncio
import contextlib
import json
import logging
import time
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector, sql  # type: ignore[import-not-found]

from benchmarks.peers.script import Drain, await_start, main

CONCURRENCY = 10
FILL_BATCH = 1000


class ObservedConnector(PsycopgConnector):  # type: ignore[misc]
    """The library's connections; tells a drain of the first fetch and of what is acknowledged."""

    drain: Drain | None = None

    async def execute_query_one_async(self, query: str, **arguments: Any) -> Any:
        """Run a statement that returns a row; one of them fetches a task."""
        if self.drain and query == sql.queries["fetch_job"]:
            self.drain.fetch()
        return await super().execute_query_one_async(query, **arguments)

    async def execute_query_async(self, query: str, **arguments: Any) -> None:
        """Run a statement, committed when it returns; one of them acknowledges a task."""
        await super().execute_query_async(query, **arguments)
        if self.drain and query == sql.queries["finish_job"]:
            self.drain.acknowledge(1)


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

    async def work(self, url: str, drain: Drain) -> None:
        """Run the worker until all is acknowledged."""
        app = _app(url)
        app.connector.drain = drain
        async with app.open_async():
            await_start()
            worker = asyncio.create_task(
                app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
            )
            drain.stop = worker.cancel
            with contextlib.suppress(asyncio.CancelledError):
                await worker


def _app(url: str) -> Any:
    # It would warn that its app stands in the main module, which is as meant here.
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = App(connector=ObservedConnector(conninfo=url))
    app.task(name="noop")(noop)
    return app


if __name__ == "__main__":
    uvloop.run(main(ProcrastinatePeer()))
