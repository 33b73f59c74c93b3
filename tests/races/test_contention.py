"""Everything at once over the same few jobs: no deadlock, no error, and a ledger that adds up."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg

from holdfast.errors import LeaseConflict
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.ending.reap import reap
from holdfast.operations.follow_up import follow_up
from holdfast.operations.renew import renew
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.requeue import requeue_due
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database, LockTimeout
from tests.audits import assert_audit_is_silent

JOBS = 6
TASKS_PER_JOB = 400
ROUNDS = 200
MODES: tuple[CancelMode, ...] = ("soft", "hard")
LIMITS = Limits(lease_seconds_min=0.05)


class Load:
    """The actors of one contest, and what they hold in common."""

    def __init__(self, database: Database, seed: int) -> None:
        self.ledger = Ledger(database, LIMITS)
        self.random = random.Random(seed)
        self.jobs: list[int] = []
        self.held: list[Fence] = []
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
        spec = parse_spec(
            {
                "entrypoint": {"function": "app:work"},
                "queue": "q",
                "lease": 0.3,
                "grace": 0.1,
                "max_retries_failure": 5,
                "max_retries_preemption": 100,
                "backoff": {"base": 0.01, "ceiling": 0.05},
            }
        )
        submission = Submission(spec, ("1",) * TASKS_PER_JOB)
        self.jobs.append((await submit_one(self.ledger, submission)).job_id)

    async def work(self) -> None:
        worker_id = f"w{self.random.randrange(1000)}"
        [found] = await self.claims.call([ClaimRequest(worker_id, ("q",), 20)])
        assert not isinstance(found, Exception), found
        fences = [Fence(c.task_id, c.attempt, c.lease_token) for c in found]
        self.held = fences + self.held[:200]
        _expect(await self.reports.call([Report(f, TaskState.RUNNING) for f in fences]))
        kept = [f for f in fences if self.random.random() < 0.9]
        self.random.shuffle(kept)
        _expect(
            await self.completions.call(
                [
                    Completion(fence, "succeeded")
                    if self.random.random() < 0.7
                    else Completion(fence, "failed", error="boom")
                    for fence in kept
                ]
            )
        )

    async def renew(self) -> None:
        fences = self.held[:100]
        self.random.shuffle(fences)
        _expect(await renew(self.ledger, fences))

    async def cancel_tasks(self) -> None:
        task_id = TaskId(self.random.choice(self.jobs), self.random.randrange(TASKS_PER_JOB))
        await cancel_task(self.ledger, task_id, self.random.choice(MODES), actor="test")

    async def cancel_jobs(self) -> None:
        if self.random.random() < 0.05:
            job_id = self.random.choice(self.jobs)
            await cancel_job(self.ledger, job_id, self.random.choice(MODES), actor="test")
            await self.submit()

    async def run_chores(self) -> None:
        await reap(self.ledger)
        await requeue_due(self.ledger)
        await follow_up(self.ledger)


def _expect(answers: list[Any]) -> None:
    """Accept conflicts, which this contest provokes; anything else is an error."""
    for answer in answers:
        assert not isinstance(answer, Exception) or isinstance(answer, LeaseConflict), answer


async def _repeat(action: Callable[[], Awaitable[None]]) -> None:
    for _ in range(ROUNDS):
        with suppress(LockTimeout):  # "try again", which the next round does
            await action()


async def test_claims_completions_renewals_cancels_and_expiries_never_deadlock(
    database_url: str,
) -> None:
    async with (
        Database(database_url, connections_max=12) as database,
        Database(database_url, connections_max=12) as other_database,
    ):
        servers = [Load(database, seed=1), Load(other_database, seed=2)]
        for load in servers:
            for _ in range(JOBS):
                await load.submit()
        shared = servers[0].jobs + servers[1].jobs
        for load in servers:
            load.jobs = list(shared)
        actions: list[Callable[[], Awaitable[None]]] = []
        for load in servers:
            actions += [load.work] * 4
            actions += [load.renew, load.cancel_tasks, load.cancel_jobs, load.run_chores]
        await asyncio.gather(*(_repeat(action) for action in actions))
        await assert_audit_is_silent(database)
    # A backend reports its deadlocks at the latest when it leaves, so they are read afterwards.
    connection = await asyncpg.connect(database_url)
    deadlocks = await connection.fetchval(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    rows = await connection.fetch("select distinct type::text from holdfast.events")
    await connection.close()
    assert deadlocks == 0
    happened = {row[0] for row in rows}
    assert happened >= {"succeeded", "failed", "retried", "killed", "worker_failed"}
