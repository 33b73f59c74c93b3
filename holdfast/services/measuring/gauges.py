"""What a scrape should know of the ledger as it stands: queues, workers, leases.

Reading it costs some milliseconds, so it is read at most every few seconds, however many scrape.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import get_args

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from holdfast.model.work.outcomes import ReasonCode
from holdfast.store.database import Database
from holdfast.store.reads.limits.queues import QueueView, list_queues
from holdfast.store.reads.limits.usage_limits import GATED_COUNTED_MAX, LimitUse, count_use
from holdfast.store.reads.work.attempts import count_leases
from holdfast.store.reads.work.dead_letters import LETTERS_COUNTED_MAX, count_open_letters
from holdfast.store.reads.workers.workers import count_workers
from holdfast.store.tables.limits.usage_limits import list_limits

FRESH_SECONDS = 5.0
QUEUES_MAX = 1000
LIMITS_MAX = 1000


async def read_gauges(database: Database) -> list[Metric]:
    """Read how deep and old queues are, how workers do; count leases and open dead letters."""
    async with database.transaction() as tx:
        view = await list_queues(tx)
        workers = await count_workers(tx)
        open_leases, ending_leases = await count_leases(tx)
        open_letters = await count_open_letters(tx)
        limits = await list_limits(tx, after="", batch_max=LIMITS_MAX)
        use = await count_use(tx, [stored.limit_id for stored in limits]) if limits else {}
    by_health = GaugeMetricFamily("holdfast_workers", "Workers by health.", labels=["health"])
    for health, count in workers.items():
        by_health.add_metric([health], count)
    leases = GaugeMetricFamily(
        "holdfast_leases",
        "Leases: of open attempts, and of ended ones not released.",
        labels=["of"],
    )
    leases.add_metric(["open"], open_leases)
    leases.add_metric(["ending"], ending_leases)
    letters = GaugeMetricFamily(
        "holdfast_dead_letters_open",
        f"Dead letters that wait for a decision; {LETTERS_COUNTED_MAX} in all are counted.",
        labels=["reason"],
    )
    for reason in get_args(ReasonCode):
        letters.add_metric([reason], open_letters.get(reason, 0))
    of_limits = _limit_gauges((stored.name, use[stored.limit_id]) for stored in limits)
    return [*_queue_gauges(view), *of_limits, by_health, leases, letters]


def _limit_gauges(limits: Iterable[tuple[str, LimitUse]]) -> list[Metric]:
    used = GaugeMetricFamily(
        "holdfast_limit_slots_used",
        "Slots of a limit that attempts hold, in all of its buckets.",
        labels=["limit"],
    )
    surplus = GaugeMetricFamily(
        "holdfast_limit_slots_surplus",
        "Of these, those beyond what the limit allows since it was lowered.",
        labels=["limit"],
    )
    gated = GaugeMetricFamily(
        "holdfast_limit_gated",
        f"Tasks that wait for a limit; {GATED_COUNTED_MAX} of each bucket are counted.",
        labels=["limit"],
    )
    for name, use in limits:
        used.add_metric([name], use.held)
        surplus.add_metric([name], use.surplus)
        gated.add_metric([name], use.gated)
    return [used, surplus, gated]


def _queue_gauges(view: QueueView) -> list[Metric]:
    depth = GaugeMetricFamily("holdfast_queue_depth", "Tasks in line.", labels=["queue"])
    age = GaugeMetricFamily(
        "holdfast_queue_oldest_age_seconds",
        "How long the oldest task in line has waited.",
        labels=["queue"],
    )
    running = GaugeMetricFamily("holdfast_queue_running", "Attempts under way.", labels=["queue"])
    paused = GaugeMetricFamily("holdfast_queue_paused", "1 if it is paused.", labels=["queue"])
    demand = GaugeMetricFamily(
        "holdfast_queue_demand",
        "Slots of workers that it has use for: attempts under way, and tasks that could start.",
        labels=["queue"],
    )
    gated = GaugeMetricFamily(
        "holdfast_queue_gated",
        "Tasks beside the line, which could start but for a limit.",
        labels=["queue"],
    )
    # The deepest ones, should there be a runaway number of them.
    deepest = sorted(view.queues.values(), key=lambda row: (-row.depth, row.queue))
    for row in deepest[:QUEUES_MAX]:
        waited = 0.0 if row.oldest_at is None else (view.now - row.oldest_at).total_seconds()
        depth.add_metric([row.queue], row.depth)
        age.add_metric([row.queue], max(waited, 0.0))
        running.add_metric([row.queue], row.running)
        paused.add_metric([row.queue], float(row.paused_by is not None))
        demand.add_metric([row.queue], row.demand)
        gated.add_metric([row.queue], row.gated)
    return [depth, age, running, paused, demand, gated]


class Gauges(Collector):
    """The gauges as they were read last; register it, and refresh it before a scrape."""

    def __init__(self, database: Database, *, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._database = database
        self._fresh_seconds = fresh_seconds
        self._metrics: list[Metric] = []
        self._fresh_until = 0.0
        self._turn = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the gauges again, if the last time is a while ago; one reader at a time."""
        async with self._turn:
            if time.monotonic() >= self._fresh_until:
                self._metrics = await read_gauges(self._database)
                self._fresh_until = time.monotonic() + self._fresh_seconds

    def collect(self) -> Iterable[Metric]:
        """Give the gauges to the registry."""
        return self._metrics
