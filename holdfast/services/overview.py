"""How the system does, read at most once a second, however many have the page open."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.rules.attention import (
    FAILURES_MIN,
    RECENT,
    Attention,
    QueueStanding,
    TypeStanding,
    WorkerStanding,
    list_attention,
)
from holdfast.store import samples
from holdfast.store.database import Database, Transaction
from holdfast.store.fleet import QueueView, count_workers, list_queues

FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class OverviewView:
    """What was seen at a moment; `steps` has None where nothing is known."""

    now: datetime
    step_seconds: int
    live: samples.Live
    workers: dict[str, int]
    attention: list[Attention]
    steps: list[tuple[datetime, samples.Step | None]]


async def read_overview(database: Database, window_seconds: int) -> OverviewView:
    """Read how the system does now and how it did within a window, all of it bounded."""
    async with database.transaction() as tx:
        live = await samples.count_live(tx)
        workers = await count_workers(tx)
        queues = await list_queues(tx)
        known = await _read_standings(tx, queues)
        step_seconds = samples.choose_step(window_seconds)
        begins = samples.list_steps(queues.now, window_seconds)
        steps = await samples.read_steps(tx, begins[0], step_seconds=step_seconds)
    # Who is missing is found by looking at all workers and leases, with the planner left alone.
    async with database.snapshot() as tx:
        missing = await samples.list_missing_workers(tx, queues.now, recent=RECENT)
    return OverviewView(
        now=queues.now,
        step_seconds=step_seconds,
        live=live,
        workers=workers,
        attention=list_attention(
            **known,
            workers=[
                WorkerStanding(one.worker_id, one.is_lost, one.lost_cause, one.leases)
                for one in missing
            ],
        ),
        steps=[(at, steps.get(at)) for at in begins],
    )


async def _read_standings(tx: Transaction, view: QueueView) -> dict[str, Any]:
    """Read how queues, types and dead letters stand, as the rule wants it."""
    served = await samples.list_served_queues(tx, view.now)
    failing = await samples.count_failures_by_type(tx, view.now - RECENT, failures_min=FAILURES_MIN)
    return {
        "queues": [
            QueueStanding(
                row.queue,
                row.depth,
                0.0 if row.oldest_at is None else (view.now - row.oldest_at).total_seconds(),
                row.running,
                row.finished_per_second,
                row.paused_by,
                row.queue in served,
            )
            for row in view.queues.values()
        ],
        "types": [TypeStanding(*row) for row in failing],
        "dead_letters": await samples.count_open_letters(tx),
    }


class Overviews:
    """The overviews that were read last, by window."""

    def __init__(self, database: Database, *, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._database = database
        self._fresh_seconds = fresh_seconds
        self._kept: dict[int, tuple[float, OverviewView]] = {}
        self._turn = asyncio.Lock()

    async def read(self, window_seconds: int) -> OverviewView:
        """Read the overview of a window again, if the last time is a while ago; one at a time."""
        async with self._turn:
            now = time.monotonic()
            # Of windows that nobody asks for any more nothing is kept.
            self._kept = {window: one for window, one in self._kept.items() if one[0] > now}
            if window_seconds not in self._kept:
                view = await read_overview(self._database, window_seconds)
                self._kept[window_seconds] = time.monotonic() + self._fresh_seconds, view
                return view
            return self._kept[window_seconds][1]
