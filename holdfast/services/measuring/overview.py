"""How the system does, read at most once a second, however many have the page open."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime

from holdfast.rules.attention import (
    FAILURES_MIN,
    RECENT,
    Attention,
    QueueStanding,
    TypeStanding,
    WorkerStanding,
    list_attention,
)
from holdfast.store.database import Database
from holdfast.store.reads import dead_letters, queues, samples, tasks, workers
from holdfast.store.reads.queues import list_lines
from holdfast.store.reads.workers import count_workers

FRESH_SECONDS = 1.0
# To find out what needs attention costs more, and it changes more slowly.
ATTENTION_FRESH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Chart:
    """What was counted at a moment, and before; `steps` has None where nothing is known."""

    now: datetime
    step_seconds: int
    live: tasks.Live
    workers: dict[str, int]
    steps: list[tuple[datetime, samples.Step | None]]


async def read_chart(database: Database, window_seconds: int) -> Chart:
    """Read what is under way now, and what happened within a window."""
    async with database.transaction() as tx:
        now = await tx.now()
        step_seconds = samples.choose_step(window_seconds)
        begins = samples.list_steps(now, window_seconds)
        known = await samples.read_steps(tx, begins[0], step_seconds=step_seconds)
        return Chart(
            now=now,
            step_seconds=step_seconds,
            live=await tasks.count_live(tx),
            workers=await count_workers(tx),
            steps=[(at, known.get(at)) for at in begins],
        )


async def read_attention(database: Database) -> list[Attention]:
    """Find out what somebody should look at; every look is bounded."""
    async with database.transaction() as tx:
        view = await list_lines(tx)
        now = view.now
        served = await queues.list_served_queues(tx, now)
        finishing = await queues.list_finishing_queues(tx, now)
        failing = await samples.count_failures_by_type(tx, now - RECENT, failures_min=FAILURES_MIN)
        letters = await dead_letters.count_open_letters(tx)
    async with database.snapshot() as tx:
        missing = await workers.list_missing_workers(tx, now, recent=RECENT)
    lines = [
        QueueStanding(
            row.queue,
            row.depth,
            waited_seconds=(now - (row.oldest_at or now)).total_seconds(),
            running=row.running,
            has_finished=finishing is None or row.queue in finishing,
            paused_by=row.paused_by,
            is_served=row.queue in served,
        )
        for row in view.queues.values()
    ]
    return list_attention(
        queues=lines,
        types=[TypeStanding(*row) for row in failing],
        dead_letters=letters,
        workers=[WorkerStanding(*row) for row in missing],
    )


class Overviews:
    """What was read last, by window; and what needs attention, whatever the window."""

    def __init__(
        self,
        database: Database,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        attention_fresh_seconds: float = ATTENTION_FRESH_SECONDS,
    ) -> None:
        self._database = database
        self._fresh_seconds = fresh_seconds
        self._attention_fresh_seconds = attention_fresh_seconds
        self._charts: dict[int, tuple[float, Chart]] = {}
        self._attention: tuple[float, list[Attention]] = (0.0, [])
        self._turn = asyncio.Lock()

    async def read(self, window_seconds: int) -> tuple[Chart, list[Attention]]:
        """Read what is older than a moment again; one at a time, for all who ask."""
        async with self._turn:
            await asyncio.gather(self._read_chart(window_seconds), self._read_attention())
            return self._charts[window_seconds][1], self._attention[1]

    async def _read_chart(self, window_seconds: int) -> None:
        now = time.monotonic()
        # Of windows that nobody asks for any more nothing is kept.
        self._charts = {window: one for window, one in self._charts.items() if one[0] > now}
        if window_seconds not in self._charts:
            chart = await read_chart(self._database, window_seconds)
            self._charts[window_seconds] = time.monotonic() + self._fresh_seconds, chart

    async def _read_attention(self) -> None:
        if time.monotonic() >= self._attention[0]:
            found = await read_attention(self._database)
            self._attention = time.monotonic() + self._attention_fresh_seconds, found
