"""A limit per key while workers and Postgres are killed: never exceeded, and no slot is lost."""

import asyncio
import random
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import Unavailable
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completed, Completion
from holdfast.operations.report import Report
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.usage_limits.put import put_limit
from holdfast.operations.usage_limits.tend import Buckets, Gates
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.store.database import Database
from holdfast.store.migrate import migrate
from tests.audits import assert_audit_is_silent
from tests.clock import Clock
from tests.limits import count_rows, most_held
from tests.simulation.load import SPEC, Fleet, check_acknowledged
from tests.standby import kill_whole
from tests.waiting import eventually

MOST = 5


class KeyedFleet(Fleet):
    """Tasks of keys of which few are asked for most; a worker may die with what it holds."""

    def __init__(self, database: Database, seed: int, *, workers: int, keys: int) -> None:
        super().__init__(database, seed)
        self.workers = workers
        self.keys = keys
        self.dies_at = 0.05
        self.gates = Gates(self.ledger)
        self.buckets = Buckets(self.ledger)

    async def submit(self) -> None:
        ranks = range(self.keys)
        weights = [1 / (rank + 1) for rank in ranks]
        picked = self.random.choices(ranks, weights, k=self.random.randrange(1, 60))
        spec = parse_spec(SPEC | {"concurrency_key": {"input": "key"}})
        submission = Submission(spec, parse_inputs([{"key": f"k{rank}"} for rank in picked]))
        stored = await submit_one(self.ledger, submission)
        self.submitted[stored.job_id] = len(picked)
        await asyncio.sleep(0.05)

    async def work(self, worker_id: str) -> None:
        [found] = await self.claims.call([ClaimRequest(worker_id, ("q",), 3)])
        if isinstance(found, Exception):
            raise found
        for leased in found:
            if self.random.random() < self.dies_at:
                return  # with all that it holds: nobody hears of it again
            fence = Fence(leased.task_id, leased.attempt, leased.lease_token)
            await self.reports.call([Report(fence, TaskState.RUNNING)])
            await asyncio.sleep(self.random.random() * 0.02)
            result = f'"{fence.lease_token}"'
            [answer] = await self.completions.call([Completion(fence, "succeeded", result=result)])
            if answer == Completed(fence.task_id, accepted=True):
                self.succeeded[fence.task_id] = result

    async def run_chores(self) -> None:
        await super().run_chores()
        await self.gates.look()
        await self.buckets.clear()

    async def run(self) -> None:
        """Keep everybody busy until told to close, through every outage."""
        turns = [self._keep(lambda n=n: self.work(f"w{n}")) for n in range(self.workers)]
        await asyncio.gather(self._keep(self.submit), self._keep(self.run_chores), *turns)


async def _live_through(folder: Path, seed: int, *, kills: int, workers: int, keys: int) -> None:
    chance = random.Random(seed)
    with EmbeddedPostgres(folder) as postgres:
        postgres.create_database("limits")
        url = postgres.url("limits")
        await migrate(url)
        async with Database(url, connections_max=20) as database:
            fleet = KeyedFleet(database, seed, workers=workers, keys=keys)
            limit = UsageLimit(scope="key", kind="concurrency", most=MOST)
            await put_limit(fleet.ledger, "per-key", limit, actor="ann")
            running = asyncio.create_task(fleet.run())
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.5, 1.5))
                await asyncio.to_thread(kill_whole, postgres)
                await asyncio.to_thread(postgres.start)
            fleet.is_closing = True
            await running
            fleet.dies_at = 0.0
            await fleet.finish()
            await check_acknowledged(fleet)
            await assert_audit_is_silent(database)
            async with Clock(url) as clock:
                most = await most_held(clock, "key")
                assert max(most.values()) == MOST, most

                async def is_free() -> bool:
                    await fleet.run_chores()
                    return await count_rows(clock, "leases") + await count_rows(clock, "gated") == 0

                await eventually(is_free)


async def _survive(folder: Path, seed: int, *, kills: int, workers: int, keys: int) -> None:
    """Live through kills at random moments; a failure names its seed."""
    try:
        await _live_through(folder, seed, kills=kills, workers=workers, keys=keys)
    except (AssertionError, Unavailable, TimeoutError) as error:
        error.add_note(f"seed={seed}")
        raise


async def test_a_limit_holds_while_workers_and_postgres_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**9)
    await _survive(tmp_path / "cluster", seed, kills=1, workers=8, keys=4)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
async def test_a_limit_holds_through_a_night_of_kills(tmp_path: Path, seed: int) -> None:
    await _survive(tmp_path / "cluster", seed, kills=20, workers=64, keys=200)
