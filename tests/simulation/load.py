"""Load on a ledger that remembers what was acknowledged: what must be there after any outage."""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from holdfast.errors import LeaseConflict, Unavailable
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.ending.reap import reap
from holdfast.operations.follow_up import follow_up
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.requeue import requeue_due
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database

WORKERS = 16
SPEC = {
    "entrypoint": {"function": "app:work"},
    "queue": "q",
    "lease": 0.5,
    "max_retries_preemption": 10_000,
    "max_retries_failure": 3,
    "backoff": {"base": 0.01, "ceiling": 0.1},
}


class Fleet:
    """Workers, a submitter and the chores; it remembers everything that was acknowledged."""

    def __init__(self, database: Database, seed: int) -> None:
        self.ledger = Ledger(database, Limits(lease_seconds_min=0.1))
        self.random = random.Random(seed)
        self.submitted: dict[int, int] = {}
        self.succeeded: dict[TaskId, str] = {}
        self.is_closing = False
        slots = asyncio.Semaphore(2)
        self.claims: Batcher[ClaimRequest, Any] = Batcher(
            lambda items: claim(self.ledger, items), slots=slots
        )
        self.reports: Batcher[Report, Any] = Batcher(
            lambda items: report(self.ledger, items), slots=slots
        )
        self.completions: Batcher[Completion, Any] = Batcher(
            lambda items: complete(self.ledger, items), slots=slots
        )

    async def submit(self) -> None:
        tasks = self.random.randrange(1, 60)
        submission = Submission(parse_spec(SPEC), tuple(str(n) for n in range(tasks)))
        self.submitted[(await submit_one(self.ledger, submission)).job_id] = tasks

    async def work(self, worker_id: str) -> None:
        [found] = await self.claims.call([ClaimRequest(worker_id, ("q",), 5)])
        if isinstance(found, Exception):
            raise found
        for leased in found:
            fence = Fence(leased.task_id, leased.attempt, leased.lease_token)
            [started] = await self.reports.call([Report(fence, TaskState.RUNNING)])
            if isinstance(started, LeaseConflict):
                continue
            fails = self.random.random() < 0.05
            result = None if fails else f'"{fence.lease_token}"'
            item = Completion(fence, "failed" if fails else "succeeded", result=result)
            [answer] = await self.completions.call([item])
            if answer == Completed(fence.task_id, accepted=True) and result:
                self.succeeded[fence.task_id] = result

    async def run_chores(self) -> None:
        await reap(self.ledger)
        await requeue_due(self.ledger)
        await follow_up(self.ledger)

    async def run(self) -> None:
        """Keep everybody busy until told to close, through every outage."""
        turns = [self._keep(lambda n=n: self.work(f"w{n}")) for n in range(WORKERS)]
        await asyncio.gather(self._keep(self.submit), self._keep(self.run_chores), *turns)

    async def _keep(self, action: Any) -> None:
        while not self.is_closing:
            await self._once(action())

    async def _once(self, turn: Awaitable[None]) -> None:
        with suppress(Unavailable):  # Postgres is away: the next turn tries again
            await turn
        await asyncio.sleep(self.random.random() * 0.01)

    async def finish(self) -> None:
        """Take everything that is left to its end."""
        for _ in range(2000):
            async with self.ledger.database.transaction() as tx:
                live = await tx.connection.fetchval(
                    "select count(*) from holdfast.jobs where finished_at is null"
                )
            if not live:
                return
            await self.run_chores()
            await asyncio.gather(*(self.work(f"w{n}") for n in range(WORKERS)))
            await asyncio.sleep(0.01)
        raise AssertionError("some job never ended")


async def check_acknowledged(fleet: Fleet) -> None:
    async with fleet.ledger.database.snapshot() as tx:
        jobs = await tx.connection.fetch("select job_id, num_tasks from holdfast.jobs")
        rows = await tx.connection.fetch(
            "select job_id, task_index, state, result::text from holdfast.tasks"
        )
    stored = {row[0]: row[1] for row in jobs}
    assert fleet.submitted.items() <= stored.items()
    tasks = {TaskId(row[0], row[1]): row for row in rows}
    for task_id, result in fleet.succeeded.items():
        assert tasks[task_id][2] == TaskState.SUCCEEDED
        assert tasks[task_id][3] == result
    assert len(fleet.succeeded) > 0
