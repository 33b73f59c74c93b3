"""What servers have counted, step by step.

A chart of a window is read from the shortest steps of which it needs no more than STEPS_MAX, so it
costs the same whether it shows an hour or a week.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements
from holdfast.store.tables.upkeep.samples import STEPS, STEPS_KEPT, Counts, WorkerEnds

_SAMPLES = load_statements("reads/upkeep/samples")
STEPS_MAX = 360
TYPES_MAX = 500


class Step(NamedTuple):
    """What is known of one step, of all servers together."""

    counts: Counts
    waits: Sequence[int]
    depth: int
    running: int


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


class TypeTimes(NamedTuple):
    """What is known of the attempts of a type: how many, failures, how long they waited and ran."""

    attempts: int
    failures: int
    waits: Sequence[int]
    runs: Sequence[int]


async def read_type_times(
    tx: Transaction, since: datetime, types: Sequence[str]
) -> dict[str, TypeTimes]:
    """Read what is known of types since a minute; those of which nothing is are left out."""
    rows = await tx.fetch(_SAMPLES["read_type_times"], since=since, types=types)
    return {row[0]: TypeTimes._make(row[1:]) for row in rows}


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


async def count_ends_by_worker(
    tx: Transaction, since: datetime, worker_ids: Sequence[str] | None = None
) -> dict[str, WorkerEnds]:
    """Count the attempts that ended on workers since a time, to the step; of these, or of all."""
    rows = await tx.fetch(_SAMPLES["read_worker_samples"], since=since, worker_ids=worker_ids)
    return {row[0]: WorkerEnds(*row[1:]) for row in rows}
