"""How the system does, read at most once a second, however many have the page open."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.rules.placement.impossible import Impossible
from holdfast.rules.reading.attention import (
    ATTENTION_MAX,
    RECENT,
    Attention,
    ErrorStanding,
    ImpossibleStanding,
    QueueStanding,
    TypeStanding,
    WorkerStanding,
    list_attention,
)
from holdfast.rules.reading.fingerprint import fingerprint, first_line
from holdfast.rules.reading.worker_failures import find_bad_workers
from holdfast.store.database import Database, Transaction
from holdfast.store.reads.limits import queues
from holdfast.store.reads.limits.queues import QueueView, list_lines
from holdfast.store.reads.upkeep import samples
from holdfast.store.reads.work import dead_letters, jobs, tasks
from holdfast.store.reads.workers import workers
from holdfast.store.reads.workers.too_large import LargeTasks
from holdfast.store.reads.workers.workers import count_workers

FRESH_SECONDS = 1.0
# To find out what needs attention costs more, and it changes more slowly.
ATTENTION_FRESH_SECONDS = 5.0
IMPOSSIBLE_TASKS_MAX = 10_000
# Of the newest jobs that did not succeed; to tell more errors apart would take a while.
ERRORS_EXAMINED_MAX = 2000

# What has failed is counted by the minute, and some seconds later.
COUNTED_LATE_MAX = timedelta(minutes=1)

ListImpossible = Callable[[], Awaitable[list[Impossible]]]


@dataclass(frozen=True, slots=True)
class Chart:
    """What was counted at a moment, and before; `steps` has None where nothing is known."""

    now: datetime
    step_seconds: int
    live: tasks.Live
    line: queues.Line
    workers: dict[str, int]
    steps: list[tuple[datetime, samples.Step | None]]


@dataclass(frozen=True, slots=True)
class Findings:
    """What somebody should look at, and how many tasks in line no worker could ever run."""

    attention: list[Attention]
    never_fits: int


async def read_chart(database: Database, window_seconds: int) -> Chart:
    """Read what is under way now, and what happened within a window."""
    async with database.transaction() as tx:
        now = await tx.now()
        step_seconds = samples.choose_step(window_seconds)
        begins = samples.list_steps(now, window_seconds)
        known = await samples.read_steps(tx, begins[0], step_seconds=step_seconds)
        view = await list_lines(tx)
        return Chart(
            now=now,
            step_seconds=step_seconds,
            live=await tasks.count_live(tx),
            line=view.add_up(),
            workers=await count_workers(tx),
            steps=[(at, known.get(at)) for at in begins],
        )


async def read_attention(database: Database, list_impossible: ListImpossible) -> Findings:
    """Find out what somebody should look at; every look is bounded."""
    never = await list_impossible()
    async with database.transaction() as tx:
        view = await list_lines(tx)
        now = view.now
        finishing = await queues.list_finishing_queues(tx, now)
        failing = await samples.count_failures_by_type(tx, now - RECENT, failures_min=1)
        ended = await jobs.list_newest_errors(tx, ERRORS_EXAMINED_MAX)
        recent = {
            row.job_id: row.finished_at
            for row in ended
            if row.finished_at is not None and row.finished_at > now - RECENT
        }
        settled = await jobs.list_settled(tx, list(recent))
        settled_at = max((recent[job_id] for job_id in settled), default=now)
        since = await samples.count_failures_by_type(
            tx, settled_at + COUNTED_LATE_MAX, failures_min=1
        )
        letters = await dead_letters.count_open_letters(tx)
        # Each is counted by a statement: those that have waited longest, as many as can be told.
        impossible = [await _stand(tx, one, now) for one in never[:ATTENTION_MAX]]
        impossible += _large_standings(await queues.find_large(tx, view), now)
    async with database.snapshot() as tx:
        missing = await workers.list_missing_workers(tx, now, recent=RECENT)
        ends = await samples.count_ends_by_worker(tx, now - RECENT)
        serving = await workers.list_serving(tx, sorted(ends))
    # To tell errors apart takes a while, and this loop has leases to renew.
    errors = await asyncio.to_thread(_error_standings, ended, settled, now)
    attention = list_attention(
        queues=_queue_standings(view, finishing),
        impossible=impossible,
        errors=errors,
        types=[TypeStanding(*row) for row in failing],
        types_since=[TypeStanding(*row) for row in since],
        dead_letters=letters,
        workers=[WorkerStanding(*row) for row in missing],
        # Whoever is lost or leaves takes nothing more, but shows how the others do.
        bad_workers=[bad for bad in find_bad_workers(ends) if bad.worker_id in serving],
    )
    return Findings(attention, sum(one.tasks for one in impossible))


async def _stand(tx: Transaction, one: Impossible, now: datetime) -> ImpossibleStanding:
    count = await queues.count_placed_of_jobs(tx, one.job_ids, IMPOSSIBLE_TASKS_MAX)
    waited = max(now.timestamp() - one.since, 0.0)
    return ImpossibleStanding(one.asks_for, one.why, one.job_ids, count, waited)


def _large_standings(large: Iterable[LargeTasks], now: datetime) -> list[ImpossibleStanding]:
    """Group what no worker of its queue has room for; the longest wait comes first."""
    alike: dict[tuple[str, str], list[LargeTasks]] = defaultdict(list)
    for each in large:
        alike[f"{each.asks_for} in queue {each.queue}", each.why].append(each)
    return [
        ImpossibleStanding(
            asks_for,
            why,
            tuple(each.job_id for each in found),
            tasks=sum(each.tasks for each in found),
            waited_seconds=max((now - found[0].since).total_seconds(), 0.0),
        )
        for (asks_for, why), found in alike.items()
    ]


def _error_standings(
    ended: Iterable[jobs.JobError], settled: set[int], now: datetime
) -> list[ErrorStanding]:
    """Group jobs by their error, whatever varies in it; those without an end are not done yet."""
    alike: dict[str, list[tuple[datetime, jobs.JobError]]] = defaultdict(list)
    for row in ended:
        if row.finished_at is not None:
            alike[fingerprint(None, row.error)].append((row.finished_at, row))
    standings = []
    for kind, rows in alike.items():
        last_at, newest = max(rows)
        types = Counter(row.type for _, row in rows)
        recent = [row.job_id for at, row in rows if at > now - RECENT]
        standings.append(
            ErrorStanding(
                kind,
                first_line(newest.error),
                tuple(name for name, _ in types.most_common()),
                jobs=len(rows),
                recent=len(recent),
                last_seconds=max((now - last_at).total_seconds(), 0.0),
                is_settled=bool(recent) and settled.issuperset(recent),
            )
        )
    return standings


def _queue_standings(view: QueueView, finishing: set[str] | None) -> list[QueueStanding]:
    return [
        QueueStanding(
            row.queue,
            row.depth - row.never_fits,
            waited_seconds=(view.now - (row.oldest_at or view.now)).total_seconds(),
            running=row.running,
            has_finished=finishing is None or row.queue in finishing,
            paused_by=row.paused_by,
            is_served=row.is_served,
            limited_by=row.limited_by,
        )
        for row in view.queues.values()
    ]


class Overviews:
    """What was read last, by window; and what needs attention, whatever the window."""

    def __init__(
        self,
        database: Database,
        list_impossible: ListImpossible,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        attention_fresh_seconds: float = ATTENTION_FRESH_SECONDS,
    ) -> None:
        self._database = database
        self._list_impossible = list_impossible
        self._fresh_seconds = fresh_seconds
        self._attention_fresh_seconds = attention_fresh_seconds
        self._charts: dict[int, tuple[float, Chart]] = {}
        self._findings: tuple[float, Findings] = (0.0, Findings([], 0))
        self._turn = asyncio.Lock()

    async def read(self, window_seconds: int) -> tuple[Chart, Findings]:
        """Read what is older than a moment again; one at a time, for all who ask."""
        async with self._turn:
            await asyncio.gather(self._read_chart(window_seconds), self._read_findings())
            return self._charts[window_seconds][1], self._findings[1]

    async def _read_chart(self, window_seconds: int) -> None:
        now = time.monotonic()
        # Of windows that nobody asks for any more nothing is kept.
        self._charts = {window: one for window, one in self._charts.items() if one[0] > now}
        if window_seconds not in self._charts:
            chart = await read_chart(self._database, window_seconds)
            self._charts[window_seconds] = time.monotonic() + self._fresh_seconds, chart

    async def _read_findings(self) -> None:
        if time.monotonic() >= self._findings[0]:
            found = await read_attention(self._database, self._list_impossible)
            self._findings = time.monotonic() + self._attention_fresh_seconds, found
