"""Why placed tasks wait: as found by the code that places them, on any server, without a write.

One look at workers and demands serves everybody who asks within a second, and each demand is
explained once per look. Where too many jobs wait for all to be looked at, a job is explained by
what is free now, without those ahead of it: that much can be read however many wait.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from holdfast.ledger.ledger import Ledger
from holdfast.operations.placed.snapshot import Snapshot, SnapshotReader
from holdfast.rules.placement.impossible import Impossible, list_impossible
from holdfast.rules.placement.scheduler import Demand, Reason, explain
from holdfast.rules.placement.what_if import WhatIf, apply_to_demands, apply_to_workers
from holdfast.store.database import Database
from holdfast.store.reads.limits.queues import count_jobs_in_line

FRESH_SECONDS = 1.0
JOBS_MAX = 2000
# A job has as many demands as there are workers to keep away from; they hardly differ.
DEMANDS_EXPLAINED_MAX = 8
LOOKS_MAX = 100


@dataclass(frozen=True, slots=True)
class _Look:
    """What was seen, when that began, and what has been explained of it."""

    snapshot: Snapshot
    begun_at: float
    is_whole: bool
    demands: dict[int, list[Demand]] = field(default_factory=lambda: defaultdict(list))
    reasons: dict[tuple[int, str | None], Reason] = field(default_factory=dict)

    def knows(self, job_id: int, asked_at: float) -> bool:
        """Tell whether a job is in it, or cannot have come since the look began."""
        return job_id in self.demands or self.begun_at >= asked_at


class Reasons:
    """What this server's scheduler would say of tasks that wait, if it were their turn."""

    def __init__(
        self,
        ledger: Ledger,
        reads: Database,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        jobs_max: int = JOBS_MAX,
    ) -> None:
        self._reader = SnapshotReader(ledger)
        self._reads = reads
        self._fresh_seconds = fresh_seconds
        self._jobs_max = jobs_max
        self._whole: _Look | None = None
        self._parts: dict[int, _Look] = {}
        self._turn = asyncio.Lock()

    async def find(self, job_id: int, avoids: Iterable[str | None]) -> dict[str | None, Reason]:
        """Say why the ready tasks of a job wait, by whom they keep away from; none if none do."""
        asked_at = time.monotonic()
        async with self._turn:
            look = await self._see(job_id, asked_at)
            demands = look.demands.get(job_id, [])[:DEMANDS_EXPLAINED_MAX]
            if not demands:
                return {}
            by_avoid = {demand.avoid: demand for demand in demands}
            return {
                avoid: await self._explain(look, by_avoid.get(avoid, demands[0]))
                for avoid in avoids
            }

    async def suppose(self, job_id: int, avoid: str | None, supposed: WhatIf) -> Reason | None:
        """Say why a job's ready tasks would wait if something were otherwise; None if none do.

        Raises if the worker that is supposed to be gone is not there.
        """
        asked_at = time.monotonic()
        async with self._turn:
            look = await self._see(job_id, asked_at)
            workers = apply_to_workers(look.snapshot.workers, supposed)
            demands = apply_to_demands(look.snapshot.demands, job_id, supposed)
            mine = [demand for demand in demands if demand.job_id == job_id]
            if not mine:
                return None
            demand = next((each for each in mine if each.avoid == avoid), mine[0])
            seen = look.snapshot
            reason = await asyncio.to_thread(
                explain, workers, demands, demand, now=seen.now, turns=seen.turns
            )
            return reason if look.is_whole else self._in_a_crowd(reason)

    async def list_impossible(self) -> list[Impossible]:
        """List what no worker could ever run; of very many jobs, the first are looked at."""
        async with self._turn:
            look = self._whole
            if look is None or look.begun_at <= time.monotonic() - self._fresh_seconds:
                async with self._reads.transaction() as tx:
                    if not await count_jobs_in_line(tx, 1):
                        return []
                    snapshot = await self._reader.read(tx, jobs_max=self._jobs_max)
            else:
                snapshot = look.snapshot
            return await asyncio.to_thread(list_impossible, snapshot.workers, snapshot.demands)

    async def _see(self, job_id: int, asked_at: float) -> _Look:
        """Find a look that is fresh and shows the job, or look again."""
        look = self._whole or self._parts.get(job_id)
        fresh_after = asked_at - self._fresh_seconds
        if look is not None and look.begun_at > fresh_after and look.knows(job_id, asked_at):
            return look
        begun_at = time.monotonic()
        async with self._reads.transaction() as tx:
            is_whole = await count_jobs_in_line(tx, self._jobs_max + 1) <= self._jobs_max
            snapshot = await self._reader.read(tx, None if is_whole else job_id)
        look = _Look(snapshot, begun_at, is_whole)
        # First those that keep away from nobody: they speak for what is not explained on its own.
        for demand in sorted(snapshot.demands, key=lambda demand: demand.avoid is not None):
            look.demands[demand.job_id].append(demand)
        self._keep(job_id, look)
        return look

    def _keep(self, job_id: int, look: _Look) -> None:
        if look.is_whole:
            self._whole = look
            self._parts.clear()
            return
        self._whole = None
        self._parts[job_id] = look
        while len(self._parts) > LOOKS_MAX:
            del self._parts[next(iter(self._parts))]

    async def _explain(self, look: _Look, demand: Demand) -> Reason:
        key = (demand.job_id, demand.avoid)
        if key not in look.reasons:
            seen = look.snapshot
            # In a thread: for thousands of workers this takes a while.
            reason = await asyncio.to_thread(
                explain, seen.workers, seen.demands, demand, now=seen.now, turns=seen.turns
            )
            look.reasons[key] = reason if look.is_whole else self._in_a_crowd(reason)
        return look.reasons[key]

    def _in_a_crowd(self, reason: Reason) -> Reason:
        """Say of a reason that those ahead were left out of it."""
        details = reason.details | {"jobs_in_line_min": self._jobs_max}
        if reason.code != "fits":
            return msgspec.structs.replace(reason, details=details)
        message = (
            f"there is room for it now, but more than {self._jobs_max} jobs stand in line; "
            "higher priority goes first, then age"
        )
        return Reason("in_line", message, details)
