"""What servers have counted, step by step, and how many tasks are under way now.

A server adds to one row per length of step. A chart of a window is read from the shortest steps of
which it needs no more than STEPS_MAX, so it costs the same whether it shows an hour or a week.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from holdfast.model.states import TaskState
from holdfast.rules.quantiles import RANGES
from holdfast.store.database import Transaction
from holdfast.store.fleet import count_leases
from holdfast.store.statements import Statement, load_statements
from holdfast.store.views import SILENT_AFTER

_SAMPLES = load_statements("samples")
STEPS = (10, 60, 300, 1800)
STEPS_MAX = 360
STEPS_KEPT = 400
TYPES_KEPT = timedelta(hours=2)
TYPES_MAX = 500
COUNTED_MAX = 5000
SAMPLE_PAGES_MAX = 200
OPEN_COUNTED_MAX = 1000
LETTERS_COUNTED_MAX = 5000
QUEUES_MAX = 10_000
FINISHED_WITHIN = timedelta(minutes=1)
EVENTS_LOOKED_AT_MAX = 5000
FINISHED_JOBS_MAX = 1000
MISSING_MAX = 100


class Counts(NamedTuple):
    """How many tasks came in, moved to a state, or were sent back for another attempt."""

    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    worker_failed: int = 0
    unschedulable: int = 0
    dead_lettered: int = 0
    retried: int = 0


@dataclass(slots=True)
class Tally:
    """What one server counts between two writes; of types the attempts and the failures."""

    counts: list[int] = field(default_factory=lambda: [0] * len(Counts._fields))
    waits: list[int] = field(default_factory=lambda: [0] * RANGES)
    types: dict[str, list[int]] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Add what another has counted."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.waits = [a + b for a, b in zip(self.waits, other.waits, strict=True)]
        for name, (attempts, failures) in other.types.items():
            mine = self.types.setdefault(name, [0, 0])
            mine[0] += attempts
            mine[1] += failures


class Step(NamedTuple):
    """What is known of one step, of all servers together."""

    counts: Counts
    waits: Sequence[int]
    depth: int
    running: int


class Live(NamedTuple):
    """Tasks that have not ended: in line, due later, and by the states of open attempts."""

    ready: int
    waiting: int
    assigned: int
    building: int
    running: int
    is_estimate: bool


class MissingWorker(NamedTuple):
    """A worker that is lost or silent, and how many attempts it has not released."""

    worker_id: str
    is_lost: bool
    lost_cause: str | None
    leases: int


def choose_step(window_seconds: int) -> int:
    """Choose the shortest step of which a window has no more than a chart may show."""
    fitting = (step for step in STEPS if window_seconds <= step * STEPS_MAX)
    return next(fitting, STEPS[-1])


def list_steps(now: datetime, window_seconds: int) -> list[datetime]:
    """List where the steps of a window begin; the last one is not over yet."""
    step = choose_step(window_seconds)
    last = int(now.timestamp()) // step * step
    count = -(-window_seconds // step)
    return [datetime.fromtimestamp(last - step * back, UTC) for back in reversed(range(count))]


async def add_sample(
    tx: Transaction, server_id: str, tally: Tally, *, depth: int, running: int
) -> None:
    """Add what a server has counted, and what it sees of the ledger, to the steps of now."""
    await tx.fetch(
        _SAMPLES["add_samples"],
        steps=list(STEPS),
        server_id=server_id,
        **Counts(*tally.counts)._asdict(),
        waits=tally.waits,
        depth=depth,
        running=running,
    )
    if tally.types:
        names = sorted(tally.types)
        await tx.fetch(
            _SAMPLES["add_type_samples"],
            server_id=server_id,
            types=names,
            attempts=[tally.types[name][0] for name in names],
            failures=[tally.types[name][1] for name in names],
        )


async def read_steps(
    tx: Transaction, since: datetime, *, step_seconds: int
) -> dict[datetime, Step]:
    """Read the steps that begin at a time or later; those of which nothing is known are left out.

    Counts are added up over servers; depth and running are as the last one of them saw them.
    """
    rows = await tx.fetch(
        _SAMPLES["read_samples"], step_seconds=step_seconds, since=since, count_max=STEPS_KEPT
    )
    end = 1 + len(Counts._fields)
    return {row[0]: Step(Counts(*row[1:end]), *row[end:]) for row in rows}


async def count_failures_by_type(
    tx: Transaction, since: datetime, *, failures_min: int
) -> list[tuple[str, int, int]]:
    """Count attempts and failures of the types that failed at least so often."""
    rows = await tx.fetch(
        _SAMPLES["read_type_samples"],
        since=since,
        failures_min=failures_min,
        count_max=TYPES_MAX,
    )
    return [(name, attempts, failures) for name, attempts, failures in rows]


async def prune_samples(tx: Transaction, *, batch_max: int) -> int:
    """Forget a batch of what no chart shows any more; returns how many rows went."""
    steps = await tx.fetch(_SAMPLES["prune_samples"], steps_kept=STEPS_KEPT, batch_max=batch_max)
    types = await tx.fetch(
        _SAMPLES["prune_type_samples"], older_than=TYPES_KEPT, batch_max=batch_max
    )
    return len(steps) + len(types)


async def count_pending(tx: Transaction) -> tuple[int, int, bool]:
    """Count the tasks in line and those due later; says whether that is an estimate."""
    row = await tx.fetch_one(_SAMPLES["count_pending"], count_max=COUNTED_MAX)
    assert row is not None
    ready, waiting, ready_pages, waiting_pages = row
    is_estimate = COUNTED_MAX in (ready, waiting)
    if ready == COUNTED_MAX:
        ready = await _sample(tx, _SAMPLES["sample_ready"], ready_pages)
    if waiting == COUNTED_MAX:
        waiting = await _sample(tx, _SAMPLES["sample_waiting"], waiting_pages)
    return ready, waiting, is_estimate


async def _sample(tx: Transaction, statement: Statement, pages: int) -> int:
    """Estimate the rows of a table from some of its pages."""
    share = min(SAMPLE_PAGES_MAX / max(pages, 1), 1.0)
    row = await tx.fetch_one(statement, percent=100 * share)
    assert row is not None
    found: int = row[0]
    return max(round(found / share), COUNTED_MAX)


async def count_live(tx: Transaction) -> Live:
    """Count the tasks that have not ended; what is many is estimated from a sample."""
    ready, waiting, is_estimate = await count_pending(tx)
    total, _ = await count_leases(tx)
    rows = await tx.fetch(_SAMPLES["count_open_states"], count_max=OPEN_COUNTED_MAX)
    states: dict[int, int] = dict(rows)
    looked_at = sum(states.values())
    # One that ended between the two looks is not there, and is no reason to call it an estimate.
    scale = total / looked_at if total > OPEN_COUNTED_MAX and looked_at else 1.0

    def count(state: TaskState) -> int:
        return round(states.get(state, 0) * scale)

    return Live(
        ready,
        waiting,
        count(TaskState.ASSIGNED),
        count(TaskState.BUILDING),
        count(TaskState.RUNNING),
        is_estimate or scale != 1.0,
    )


async def count_open_letters(tx: Transaction) -> dict[str, int]:
    """Count the dead letters that wait for a decision, by reason; no more than so many in all."""
    rows = await tx.fetch(_SAMPLES["count_open_letters"], count_max=LETTERS_COUNTED_MAX)
    return dict(rows)


async def list_served_queues(tx: Transaction, now: datetime) -> set[str]:
    """List the queues that a living worker said it works for."""
    rows = await tx.fetch(
        _SAMPLES["list_served_queues"], now=now, silent_after=SILENT_AFTER, count_max=QUEUES_MAX
    )
    return {row[0] for row in rows}


async def list_finishing_queues(tx: Transaction, now: datetime) -> set[str] | None:
    """List the queues of what ended in the last minute; None if that is too much to look at."""
    row = await tx.fetch_one(
        _SAMPLES["list_finishing_queues"],
        since=now - FINISHED_WITHIN,
        count_max=EVENTS_LOOKED_AT_MAX,
        jobs_max=FINISHED_JOBS_MAX,
    )
    assert row is not None
    is_whole, queues = row
    return set(queues) if is_whole else None


async def list_missing_workers(
    tx: Transaction, now: datetime, *, recent: timedelta
) -> list[MissingWorker]:
    """List who was lost lately, or is lost or silent and holds something. Needs a snapshot."""
    rows = await tx.fetch(
        _SAMPLES["list_missing_workers"],
        now=now,
        silent_after=SILENT_AFTER,
        recent=recent,
        count_max=MISSING_MAX,
    )
    return [MissingWorker(*row) for row in rows]
