"""Kill Postgres with SIGKILL under load, again and again: what was acknowledged is there."""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import LeaseConflict, Unavailable
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.fence import Fence
from holdfast.model.ids import TaskId
from holdfast.model.spec import Limits, Submission
from holdfast.model.states import TaskState
from holdfast.operations.claim import claim
from holdfast.operations.claim_requests import ClaimRequest
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.ending.reap import reap
from holdfast.operations.follow_up import follow_up
from holdfast.operations.report import Report, report
from holdfast.operations.requeue import requeue_due
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.migrate import migrate
from tests.audits import assert_audit_is_silent
from tests.killing import kill_and_see_gone

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


def _kill_all(postmaster: int) -> None:
    """Kill Postgres and every process of it, the way a power cut would."""
    children = psutil.Process(postmaster).children(recursive=True)
    kill_and_see_gone(postmaster, *(child.pid for child in children))


async def _check_acknowledged(fleet: Fleet) -> None:
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


async def _survive(folder: Path, kills: int, seed: int) -> None:
    """Live through kills at random moments; a failure names its seed."""
    try:
        await _live_through(folder, kills, seed)
    except BaseException as error:
        error.add_note(f"seed={seed}")
        raise


async def _live_through(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with EmbeddedPostgres(folder) as postgres:
        postgres.create_database("chaos")
        await migrate(postgres.url("chaos"))
        async with Database(postgres.url("chaos"), connections_max=20) as database:
            fleet = Fleet(database, seed)
            running = asyncio.create_task(fleet.run())
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.2, 1.2))
                await asyncio.to_thread(_kill_all, postgres.pid)
                await asyncio.to_thread(postgres.start)
            fleet.is_closing = True
            await running
            await fleet.finish()
            await _check_acknowledged(fleet)
            await assert_audit_is_silent(database)


async def test_nothing_acknowledged_is_lost_when_postgres_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**9)
    await _survive(tmp_path / "cluster", kills=2, seed=seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
async def test_nothing_acknowledged_is_lost_in_a_night_of_kills(tmp_path: Path, seed: int) -> None:
    await _survive(tmp_path / "cluster", kills=15, seed=seed)
