"""The load beside a migration, run with the package of whichever version stands in PYTHONPATH.

Submissions, claims, starts, renewals and completions go through the ledger's own operations, some
callers at a time; a reader keeps a transaction open now and then. Says `ready` once all of them are
at work, and at the end, as JSON, when each operation began and how long it took, in seconds.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

import holdfast
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.renew import renew
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database

CALLERS = 16
TASKS = 10
PAUSE_SECONDS = 0.02
WARM_SECONDS = 1.0
READ_SECONDS, READ_PAUSE_SECONDS = 0.15, 0.3
INPUT = '{"to":"somebody@example.com","template":"welcome","n":12345}'
QUEUE = "load"


class Load:
    """One ledger with its batchers, and what its operations took."""

    def __init__(self, ledger: Ledger) -> None:
        self.taken: list[tuple[str, float, float]] = []
        self._ledger = ledger
        self._spec = parse_spec({"entrypoint": {"function": "app:send"}, "queue": QUEUE})
        slots = asyncio.Semaphore(2)  # as a server has them
        self._claims: Batcher[ClaimRequest, Any] = Batcher(
            lambda items: claim(ledger, items), slots=slots
        )
        self._reports: Batcher[Report, Any] = Batcher(
            lambda items: report(ledger, items), slots=slots
        )
        self._completions: Batcher[Completion, Any] = Batcher(
            lambda items: complete(ledger, items), slots=slots
        )

    async def submit(self, tasks: int) -> None:
        """Submit one job, and have all of it claimable."""
        await submit_one(self._ledger, Submission(self._spec, (INPUT,) * tasks))
        if tasks > TASKS:
            await follow_up_all(self._ledger)

    async def call(self, worker: str, ends_at: float) -> None:
        """Submit as much as is then claimed, started, renewed and completed, until a time."""
        while time.monotonic() < ends_at:
            await self._clock("submit", self.submit(TASKS))
            request = ClaimRequest(worker, (QUEUE,), TASKS)
            [claims] = await self._clock("claim", self._claims.call([request]))
            assert claims, "there is nothing to claim"
            fences = [Fence(found.task_id, found.attempt, found.lease_token) for found in claims]
            starts = [Report(fence, TaskState.RUNNING) for fence in fences]
            _check(await self._clock("start", self._reports.call(starts)))
            _check(await self._clock("renew", renew(self._ledger, fences)))
            ends = [Completion(fence, "succeeded") for fence in fences]
            _check(await self._clock("complete", self._completions.call(ends)))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _clock(self, name: str, operation: Awaitable[Any]) -> Any:
        began = time.monotonic()
        try:
            return await operation
        finally:
            self.taken.append((name, began, time.monotonic() - began))


def _check(answers: list[Any]) -> None:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer


async def read_slowly(url: str, ends_at: float) -> None:
    """Keep the tables from whoever wants them for himself, for longer than he may wait."""
    connection = await asyncpg.connect(url)
    try:
        while time.monotonic() < ends_at:
            async with connection.transaction():
                await connection.fetch("select from holdfast.jobs, holdfast.tasks limit 1")
                await connection.fetch("select from holdfast.leases, holdfast.workers limit 1")
                await asyncio.sleep(READ_SECONDS)
            await asyncio.sleep(READ_PAUSE_SECONDS)
    finally:
        await connection.close()


async def run(url: str, *, fill: int, seconds: float) -> list[tuple[str, float, float]]:
    """Fill the queue, or else work on it for some seconds; returns what the operations took."""
    async with Database(url, connections_max=6) as database:
        load = Load(Ledger(database))
        if fill:
            await load.submit(fill)
            return []
        ends_at = time.monotonic() + WARM_SECONDS + seconds
        work = [load.call(f"worker-{n}", ends_at) for n in range(CALLERS)]
        async with asyncio.TaskGroup() as group:
            for each in [*work, read_slowly(url, ends_at)]:
                group.create_task(each)
            await asyncio.sleep(WARM_SECONDS)
            print("ready", flush=True)
        return load.taken


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("version", type=Path, help="the folder of the package that must run")
    parser.add_argument("--fill", type=int, default=0, help="submit so many tasks, and no more")
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    package = Path(holdfast.__file__).parents[1]
    assert package == options.version.resolve(), f"this is the version in {package}"
    taken = uvloop.run(run(options.url, fill=options.fill, seconds=options.seconds))
    json.dump(taken, sys.stdout)


if __name__ == "__main__":
    main()
