"""Workers: how they are, what they hold, and who is missing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.errors import NotFound
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.rules.health import DEAD_AFTER_FAILURES, judge
from holdfast.rules.placement.booked import add_up
from holdfast.rules.placement.scheduler import shape_of
from holdfast.rules.reading.attention import RECENT
from holdfast.rules.reading.worker_failures import fails_nearly_all
from holdfast.store.database import Transaction
from holdfast.store.pages import Page
from holdfast.store.reads.upkeep.samples import count_ends_by_worker
from holdfast.store.specs import SpecCache
from holdfast.store.statements import load_statements

_WORKERS = load_statements("reads/workers/workers")
SILENT_AFTER = timedelta(seconds=30)
HEALTH = ("healthy", "failing", "silent", "lost")
_CALLED = {"healthy": "healthy", "failing": "failing", "dead": "lost"}
# What the rule says of a called worker after 0, 1, 2 ... failures in a row.
_JUDGED = [HEALTH.index(_CALLED[judge(count)]) for count in range(DEAD_AFTER_FAILURES + 1)]
HELD_SHOWN_MAX = 20
MISSING_MAX = 100


class WorkerRow(NamedTuple):
    """One worker process; `illness` is an index of HEALTH, `leases` what it has not released.

    One with an address is called there for placed work; `capacity`, `attributes` are JSON texts.
    `same_process` is the other one, if its process serves queues and placed work by one book.
    """

    worker_id: str
    name: str
    host: str
    queues: list[str]
    illness: int
    registered_at: datetime
    last_seen_at: datetime | None
    lost_at: datetime | None
    lost_cause: str | None
    replaced_by: str | None
    is_draining: bool
    leases: int
    address: str | None
    capacity: str | None
    attributes: str
    consecutive_failures: int
    last_failure: str | None
    answered_at: datetime | None
    same_process: str | None
    version: str | None
    clock_skew_seconds: float | None


class WorkerLoad(NamedTuple):
    """What a worker holds: some of the tasks, and what all of its book together have booked."""

    task_ids: list[TaskId]
    used: Capacity


class WorkerPosition(NamedTuple):
    """A position in the list of workers, in which the living stand first."""

    illness: int
    worker_id: str


FIRST_WORKER = WorkerPosition(-1, "")


class MissingWorker(NamedTuple):
    """A worker that is lost or silent, and how many attempts it has not released."""

    worker_id: str
    is_lost: bool
    lost_cause: str | None
    leases: int


async def list_workers(
    tx: Transaction, *, after: WorkerPosition = FIRST_WORKER, page_size: int
) -> Page[WorkerRow, WorkerPosition]:
    """List workers, the living first. Needs a snapshot: the planner should be left alone."""
    rows = await _read_workers(tx, None, after, count_max=page_size + 1)
    if len(rows) <= page_size:
        return Page(rows, None)
    last = rows[page_size - 1]
    return Page(rows[:page_size], WorkerPosition(last.illness, last.worker_id))


async def get_worker(tx: Transaction, worker_id: str) -> WorkerRow:
    """Read one worker. Needs a snapshot: the planner should be left alone."""
    rows = await _read_workers(tx, worker_id, FIRST_WORKER, count_max=1)
    if not rows:
        raise NotFound("worker", worker_id)
    return rows[0]


async def _read_workers(
    tx: Transaction, worker_id: str | None, after: WorkerPosition, *, count_max: int
) -> list[WorkerRow]:
    rows = await tx.fetch(
        _WORKERS["list_workers"],
        worker_id=worker_id,
        after_illness=after.illness,
        after_worker_id=after.worker_id,
        count_max=count_max,
        **await _read_signs(tx),
    )
    return [WorkerRow(*row) for row in rows]


async def _read_signs(tx: Transaction) -> dict[str, Any]:
    """Give a statement what it tells the health of workers by."""
    ends = await count_ends_by_worker(tx, await tx.now() - RECENT)
    return {
        "failing_ids": sorted(each for each, ended in ends.items() if fails_nearly_all(ended)),
        "failing": HEALTH.index("failing"),
        "judged": _JUDGED,
        "silent_after": SILENT_AFTER,
        "silent": HEALTH.index("silent"),
        "lost": HEALTH.index("lost"),
    }


async def read_loads(
    tx: Transaction, specs: SpecCache, worker_ids: Sequence[str]
) -> dict[str, WorkerLoad]:
    """Read what workers hold, ending or not. Needs a snapshot: the planner should be left alone."""
    loads = {worker_id: WorkerLoad([], Capacity()) for worker_id in worker_ids}
    held = await tx.fetch(
        _WORKERS["list_held"], worker_ids=list(worker_ids), tasks_max=HELD_SHOWN_MAX
    )
    for worker_id, job_id, task_index in held:
        loads[worker_id].task_ids.append(TaskId(job_id, task_index))
    booked = await tx.fetch(_WORKERS["list_booked_of_workers"], worker_ids=list(worker_ids))
    stored = await specs.load(tx, {job_id for _, job_id, _ in booked})
    used = add_up(
        (worker_id, shape_of(stored[job_id].spec), leases) for worker_id, job_id, leases in booked
    )
    return {worker_id: load._replace(used=used[worker_id]) for worker_id, load in loads.items()}


async def count_workers(tx: Transaction) -> dict[str, int]:
    """Count the workers by health."""
    rows = await tx.fetch(_WORKERS["count_workers"], **await _read_signs(tx))
    return dict.fromkeys(HEALTH, 0) | {HEALTH[illness]: count for illness, count in rows}


async def list_missing_workers(
    tx: Transaction, now: datetime, *, recent: timedelta
) -> list[MissingWorker]:
    """List who was lost lately, or is lost or silent and holds something. Needs a snapshot."""
    rows = await tx.fetch(
        _WORKERS["list_missing_workers"],
        now=now,
        silent_after=SILENT_AFTER,
        recent=recent,
        count_max=MISSING_MAX,
    )
    return [MissingWorker(*row) for row in rows]


async def list_serving(tx: Transaction, worker_ids: Sequence[str]) -> set[str]:
    """List those of these workers that are neither lost nor asked to leave."""
    rows = await tx.fetch(_WORKERS["list_serving"], worker_ids=list(worker_ids))
    return {row[0] for row in rows}
