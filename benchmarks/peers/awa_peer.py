"""awa: its worker, a native engine that calls Python, with 1,000 tasks at a time."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import awa  # type: ignore[import-not-found]
import uvloop

from benchmarks.peers.script import Put, Run, await_start, main, watched

QUEUE = "bench"
WORKERS = 1000
CLAIM_BATCH = 500
FILL_BATCH = 1000
# Its engine tells nobody of its commits, so the tables are asked: the rarer, the more is left.
DONE = (
    "select coalesce(sum(completed_count), 0)::bigint as done from awa.receipt_completion_batches"
)
ASK_SECONDS_MIN = 0.002
LEFT_PER_SECOND = 20_000


@dataclass
class Noop:
    """What a task is given."""

    n: int


class AwaPeer:
    """awa at its commands."""

    async def install(self, url: str) -> None:
        """Create its tables, with the storage that new installations are to have."""
        client = _client(url)
        await client.migrate()
        await client.install_queue_storage(schema="awa")
        await client.close()

    async def fill(self, url: str, count: int, task_input: str) -> float:
        """Enqueue lists of tasks, a COPY each."""
        client = _client(url)
        began = time.perf_counter()
        for done in range(0, count, FILL_BATCH):
            batch = min(FILL_BATCH, count - done)
            tasks = [Noop(**json.loads(task_input)) for _ in range(batch)]
            await client.enqueue_many_copy(tasks, queue=QUEUE)
        seconds = time.perf_counter() - began
        await client.close()
        return seconds

    @asynccontextmanager
    async def producing(self, url: str) -> AsyncIterator[Put]:
        """Enqueue one task at a time."""
        client = _client(url)
        yield lambda number: client.insert(Noop(number), queue=QUEUE)
        await client.close()

    async def work(self, url: str, run: Run) -> None:
        """Run the worker until all is acknowledged; its first task starts the clock."""
        client = _client(url)
        started = run.started

        @client.task(Noop, queue=QUEUE)  # type: ignore[untyped-decorator]
        async def noop(job: Any) -> None:
            if started is None:
                run.fetch()
            else:
                started(job.args.n)

        is_done = asyncio.Event()
        run.stop = is_done.set
        before = await _count(client)
        await_start()
        async with watched(run):
            await client.start(
                [{"name": QUEUE, "max_workers": WORKERS, "claim_batch_size": CLAIM_BATCH}]
            )
            if started is None and run.is_first:
                await _ask(client, run, before)
            await is_done.wait()
        await client.shutdown()
        await client.close()


async def _ask(client: Any, run: Run, before: int) -> None:
    """Acknowledge what the tables show as done, until that is all."""
    done = 0
    while done < run.count:
        await asyncio.sleep(max((run.count - done) / LEFT_PER_SECOND, ASK_SECONDS_MIN))
        now = await _count(client) - before
        run.acknowledge(now - done)
        done = now


async def _count(client: Any) -> int:
    async with await client.transaction() as transaction:
        return int((await transaction.fetch_one(DONE))["done"])


def _client(url: str) -> Any:
    # Its driver wants the folder of the socket where others have the name of the host.
    parts = urlsplit(url)
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    host = f"{quote(asked['host'], safe='')}:{asked['port']}"
    return awa.AsyncClient(f"postgresql://{parts.netloc}{host}{parts.path}?sslmode=disable")


if __name__ == "__main__":
    uvloop.run(main(AwaPeer()))
