"""Queues: what stands in line, how fast it goes, and what is in the way; placed work has none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.model.work.ids import TaskId
from holdfast.rules.limits.gates import Gate
from holdfast.store.database import Transaction
from holdfast.store.reads.limits.gates import count_gated, find_queue_gate, find_queue_gates
from holdfast.store.reads.limits.shares import ShareTurn, count_in_shares, find_turn
from holdfast.store.reads.work.jobs import JobRow
from holdfast.store.reads.work.tasks import TaskRow
from holdfast.store.reads.workers.too_large import LargeTasks, explain_job_too_large, list_too_large
from holdfast.store.reads.workers.workers import SILENT_AFTER
from holdfast.store.statements import load_statements

_QUEUES = load_statements("reads/limits/queues")
AHEAD_MAX = 1000
LINES_MAX = 10_000
# Each queue is counted this far; how much deeper it is, a sample of the table's pages tells.
DEPTH_COUNTED_MAX = 1000
IN_SHARES_COUNTED_MAX = 20_000
SAMPLE_PAGES_MAX = 250
# What is due first is counted this far, without regard to queues.
WAITING_COUNTED_MAX = 1000
WAITING_SAMPLE_PAGES_MAX = 100
PAUSED_MAX = 10_000
# The pace is that of the last minute, or of the last moments if a minute holds too much to look at:
# cut off, it would be the whole minute of old jobs and a part of it of the new ones.
PACE_SECONDS = 60
BUSY_PACE_SECONDS = 5
PACE_SAMPLE_MAX = 3000
QUEUES_MAX = 10_000
FINISHED_WITHIN = timedelta(minutes=1)
EVENTS_LOOKED_AT_MAX = 5000
FINISHED_JOBS_MAX = 1000


@dataclass(slots=True)
class QueueRow:
    """One queue: what stands in line, since when, what is due later, what runs, and how fast."""

    queue: str
    depth: int = 0
    oldest_at: datetime | None = None
    waiting: int = 0
    running: int = 0
    finished_per_second: float = 0.0
    paused_by: str | None = None
    # Registered workers that live and do not drain; and whether others hold some of it.
    workers: int = 0
    has_stranger: bool = False
    # What these workers have for tasks that name resources; None for one that takes all.
    capacities: Sequence[str | None] = (None,)
    # Of what is in line, as far as that was looked at: more than any of these workers has.
    never_fits: int = 0
    # Beside the line: tasks that wait for a limit. And one of the whole queue that is used up.
    gated: int = 0
    limited_by: str | None = None

    @property
    def is_served(self) -> bool:
        """Tell whether somebody would take the next task."""
        return self.workers > 0 or self.has_stranger

    @property
    def demand(self) -> int:
        """Count the slots of workers that it has use for: for what could start, and what runs."""
        is_held = self.paused_by is not None or self.limited_by is not None
        can_start = 0 if is_held else self.depth - self.never_fits
        return can_start + self.running


class Line(NamedTuple):
    """Tasks in line: what can start now, what stands in a paused queue, and what nobody serves."""

    free: int
    paused: int
    unserved: int


@dataclass(slots=True)
class QueueView:
    """Every queue by name, and when they were looked at; `placed` tasks have no queue."""

    now: datetime
    placed: int = 0
    is_estimate: bool = False
    queues: dict[str, QueueRow] = field(default_factory=dict)

    def at(self, queue: str) -> QueueRow:
        """Find or add a queue."""
        return self.queues.setdefault(queue, QueueRow(queue))

    def add_up(self) -> Line:
        """Add up what stands in line, by what is in its way."""
        rows = self.queues.values()
        paused = sum(row.depth for row in rows if row.paused_by is not None)
        open_rows = [row for row in rows if row.paused_by is None]
        unserved = sum(row.depth for row in open_rows if not row.is_served)
        free = sum(row.depth for row in open_rows if row.is_served)
        return Line(free + self.placed, paused, unserved)


class QueueCondition(NamedTuple):
    """What stands between a queue's tasks and a worker, and since when that is known.

    `too_large` says, of one job, why none of the workers could ever have room for its tasks; `gate`
    is a limit of the whole queue that lets nothing start now.
    """

    now: datetime
    paused_by: str | None
    is_served: bool
    too_large: str | None = None
    gate: Gate | None = None


async def list_queues(tx: Transaction) -> QueueView:
    """List every queue that is served or paused, or has tasks in line, due later or running."""
    view = await list_lines(tx)
    await _read_waiting(tx, view)
    for queue, pace in await _read_paces(tx, view.now):
        view.at(queue).finished_per_second = max(round(pace, 3), 0.0)
    await find_large(tx, view)
    return view


async def _read_gates(tx: Transaction, view: QueueView) -> None:
    """Count what limits hold back beside the line, and find whole queues that they hold back."""
    gated, is_estimate = await count_gated(tx)
    view.is_estimate = view.is_estimate or is_estimate
    for queue, count in gated.items():
        if queue:
            view.at(queue).gated = count
    lines = [row.queue for row in view.queues.values() if row.depth]
    for queue, gate in (await find_queue_gates(tx, lines, now=view.now)).items():
        view.at(queue).limited_by = gate.name


async def _read_waiting(tx: Transaction, view: QueueView) -> None:
    """Count what is due later; of more than is counted, a sample of the table's pages tells."""
    rows = await tx.fetch(_QUEUES["count_waiting"], count_max=WAITING_COUNTED_MAX)
    for queue, count, _ in rows:
        if queue is not None:
            view.at(queue).waiting = count
    if not rows or not rows[0][2]:
        return
    view.is_estimate = True
    row = await tx.fetch_one(_QUEUES["measure_waiting"])
    assert row is not None
    share = min(WAITING_SAMPLE_PAGES_MAX / max(row[0], 1), 1.0)
    for queue, count in await tx.fetch(_QUEUES["sample_waiting_of_queues"], percent=100 * share):
        line = view.at(queue)
        line.waiting = max(round(count / share), line.waiting)


async def find_large(tx: Transaction, view: QueueView) -> list[LargeTasks]:
    """Find what no worker of its queue could ever run, and count it in the view."""
    rows = [
        row
        for row in view.queues.values()
        if row.depth and row.workers and row.paused_by is None and not row.has_stranger
    ]
    found = await list_too_large(tx, {row.queue: row.capacities for row in rows})
    for each in found:
        row = view.at(each.queue)
        row.never_fits = min(row.never_fits + each.tasks, row.depth)
    return found


async def _read_paces(tx: Transaction, now: datetime) -> list[Any]:
    lately = now - timedelta(seconds=BUSY_PACE_SECONDS)
    row = await tx.fetch_one(_QUEUES["count_events_since"], since=lately, count_max=PACE_SAMPLE_MAX)
    assert row is not None
    is_busy = row[0] * PACE_SECONDS > PACE_SAMPLE_MAX * BUSY_PACE_SECONDS
    since = lately if is_busy else now - timedelta(seconds=PACE_SECONDS)
    return await tx.fetch(_QUEUES["count_finished"], since=since, count_max=PACE_SAMPLE_MAX)


async def list_lines(tx: Transaction) -> QueueView:
    """List every queue that is served or paused, or has tasks in line or running; no paces."""
    view = QueueView(await tx.now())
    await _read_lines(tx, view)
    await _add_shared(tx, view)
    for queue, count, has_stranger in await tx.fetch(_QUEUES["count_running"]):
        row = view.at(queue)
        row.running, row.has_stranger = count, has_stranger
    serving = await tx.fetch(
        _QUEUES["count_workers_of_queues"],
        now=view.now,
        silent_after=SILENT_AFTER,
        count_max=QUEUES_MAX,
    )
    for queue, count, capacities in serving:
        row = view.at(queue)
        row.workers, row.capacities = count, capacities
    for queue, paused_by in await tx.fetch(_QUEUES["list_paused"], count_max=PAUSED_MAX):
        view.at(queue).paused_by = paused_by
    await _read_gates(tx, view)
    return view


async def _read_lines(tx: Transaction, view: QueueView) -> None:
    rows = await tx.fetch(_QUEUES["list_lines"], lines_max=LINES_MAX, count_max=DEPTH_COUNTED_MAX)
    for queue, oldest_at, depth in rows:
        line = view.at(queue)
        line.oldest_at, line.depth = oldest_at, depth
    placed = await tx.fetch_one(_QUEUES["count_placed"], count_max=DEPTH_COUNTED_MAX)
    assert placed is not None
    view.placed = placed[0]
    deep = [line for line in view.queues.values() if line.depth == DEPTH_COUNTED_MAX]
    view.is_estimate = bool(deep) or view.placed == DEPTH_COUNTED_MAX
    if not view.is_estimate:
        return
    row = await tx.fetch_one(_QUEUES["measure_ready"])
    assert row is not None
    share = min(SAMPLE_PAGES_MAX / max(row[0], 1), 1.0)
    sampled = dict(await tx.fetch(_QUEUES["sample_depths"], percent=100 * share))
    for line in deep:
        line.depth = max(round(sampled.get(line.queue, 0) / share), DEPTH_COUNTED_MAX)
    if view.placed == DEPTH_COUNTED_MAX:
        view.placed = max(round(sampled.get("", 0) / share), DEPTH_COUNTED_MAX)


async def _add_shared(tx: Transaction, view: QueueView) -> None:
    """Add what stands in shares to what stands in line: it waits for nothing but its turn."""
    for queue, oldest_at, count in await count_in_shares(tx, count_max=IN_SHARES_COUNTED_MAX):
        line = view.at(queue)
        line.depth += count
        line.oldest_at = min(oldest_at, line.oldest_at or oldest_at)


async def read_condition(
    tx: Transaction, queue: str | None, job_id: int | None = None
) -> QueueCondition:
    """Read what stands between a queue's tasks, or those of a job there, and a worker.

    Placed work has no queue.
    """
    row = await tx.fetch_one(_QUEUES["read_condition"], queue=queue, silent_after=SILENT_AFTER)
    assert row is not None
    now, paused_by, capacities = row
    too_large = None
    if job_id is not None and capacities:
        too_large = await explain_job_too_large(tx, job_id, capacities)
    # What a stranger has room for, nobody knows; asked only where it makes a difference.
    has_stranger = (
        queue is not None
        and (not capacities or too_large is not None)
        and await tx.fetch_one(_QUEUES["has_stranger"], queue=queue) is not None
    )
    if has_stranger:
        too_large = None
    gate = None if queue is None else await find_queue_gate(tx, queue, now=now)
    return QueueCondition(now, paused_by, bool(capacities) or has_stranger, too_large, gate)


async def count_serving(tx: Transaction, queue: str, worker: str) -> tuple[int, int]:
    """Count the living workers of a queue: those with a name or id, and the others."""
    row = await tx.fetch_one(
        _QUEUES["count_serving"], queue=queue, worker=worker, silent_after=SILENT_AFTER
    )
    assert row is not None
    named, others = row
    return named, others


class Feeding(NamedTuple):
    """From which task on those of a job do not stand in line yet, and when the next ones will."""

    next_index: int
    due_at: datetime


async def find_feeding(tx: Transaction, job_id: int) -> Feeding | None:
    """Find how far the tasks of a job have come to stand in line; None if all of them do."""
    row = await tx.fetch_one(_QUEUES["read_feeding"], job_id=job_id)
    return None if row is None else Feeding._make(row)


async def count_ahead(tx: Transaction, job: JobRow, task: TaskRow) -> int | ShareTurn:
    """Count the tasks that would be claimed before this one, up to AHEAD_MAX."""
    turn = await find_turn(tx, TaskId(task.job_id, task.task_index), count_max=AHEAD_MAX)
    if turn is not None:
        return turn
    row = await tx.fetch_one(
        _QUEUES["count_ahead"],
        queue=job.queue,
        urgency=-job.priority,
        eligible_at=task.eligible_at,
        job_id=task.job_id,
        task_index=task.task_index,
        count_max=AHEAD_MAX,
    )
    assert row is not None
    count: int = row[0]
    return count


async def count_placed_of_jobs(tx: Transaction, job_ids: Sequence[int], count_max: int) -> int:
    """Count the tasks of jobs that stand in line to be placed, up to a bound."""
    row = await tx.fetch_one(_QUEUES["count_placed_of_jobs"], job_ids=job_ids, count_max=count_max)
    assert row is not None
    count: int = row[0]
    return count


async def list_finishing_queues(tx: Transaction, now: datetime) -> set[str] | None:
    """List the queues of what ended in the last minute; None if that is too much to look at."""
    row = await tx.fetch_one(
        _QUEUES["list_finishing_queues"],
        since=now - FINISHED_WITHIN,
        count_max=EVENTS_LOOKED_AT_MAX,
        jobs_max=FINISHED_JOBS_MAX,
    )
    assert row is not None
    is_whole, queues = row
    return set(queues) if is_whole else None


async def read_standing(
    tx: Transaction, job_id: int, task_indexes: Sequence[int]
) -> dict[int, str | None]:
    """Find the tasks of a job that stand in line to be placed, and whom each keeps away from."""
    rows = await tx.fetch(_QUEUES["read_standing"], job_id=job_id, task_indexes=list(task_indexes))
    return {row[0]: row[1] for row in rows}


async def count_jobs_in_line(tx: Transaction, count_max: int) -> int:
    """Count the jobs with tasks that could be placed, up to a bound."""
    row = await tx.fetch_one(_QUEUES["count_jobs_in_line"], count_max=count_max)
    assert row is not None
    count: int = row[0]
    return count
