"""What people read of workers, queues and dead letters."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.errors import NotFound
from holdfast.model.ids import JOB_ID_MAX, TaskId
from holdfast.model.resources import Capacity
from holdfast.rules.health import DEAD_AFTER_FAILURES, judge
from holdfast.rules.placement.scheduler import shape_of
from holdfast.store.database import Transaction
from holdfast.store.pages import Page, fill_page
from holdfast.store.specs import SpecCache
from holdfast.store.statements import load_statements
from holdfast.store.views import SILENT_AFTER

_FLEET = load_statements("fleet")
HEALTH = ("healthy", "failing", "silent", "lost")
_CALLED = {"healthy": "healthy", "failing": "failing", "dead": "lost"}
# What the rule says of a called worker after 0, 1, 2 ... failures in a row.
_JUDGED = [HEALTH.index(_CALLED[judge(count)]) for count in range(DEAD_AFTER_FAILURES + 1)]
HELD_SHOWN_MAX = 20
LINES_MAX = 10_000
# Each queue is counted this far; how much deeper it is, a sample of the table's pages tells.
DEPTH_COUNTED_MAX = 1000
SAMPLE_PAGES_MAX = 500
WAITING_COUNTED_MAX = 10_000
PAUSED_MAX = 10_000
# The pace is that of the last minute, or of the last moments if a minute holds too much to look at:
# cut off, it would be the whole minute of old jobs and a part of it of the new ones.
PACE_SECONDS = 60
BUSY_PACE_SECONDS = 5
PACE_SAMPLE_MAX = 3000
FIRST_DEAD_LETTER = TaskId(0, -1)


class WorkerRow(NamedTuple):
    """One worker process; `illness` is a place in HEALTH, `leases` what it has not released.

    One with an address is called there for placed work; `capacity`, `attributes` are JSON texts.
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


class WorkerLoad(NamedTuple):
    """What a worker holds: some of the tasks, and what all placed ones together have booked."""

    task_ids: list[TaskId]
    used: Capacity


class WorkerPlace(NamedTuple):
    """A place in the list of workers, in which the living stand first."""

    illness: int
    worker_id: str


FIRST_WORKER = WorkerPlace(-1, "")


class DeadLetterRow(NamedTuple):
    """A task that will not be tried again; `input` is a JSON text."""

    job_id: int
    task_index: int
    reason_code: str
    stage: str | None
    error_class: str | None
    last_error: str | None
    attempts: int
    last_owner: str | None
    last_lease_expires_at: datetime | None
    correlation_id: str
    type: str
    queue: str | None
    input: str | None
    dead_lettered_at: datetime
    replayed_at: datetime | None
    replayed_as: int | None
    discarded_at: datetime | None
    discarded_by: str | None

    @property
    def id(self) -> TaskId:
        """Name the task."""
        return TaskId(self.job_id, self.task_index)


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


@dataclass(slots=True)
class QueueView:
    """Every queue by name, and when they were looked at."""

    now: datetime
    queues: dict[str, QueueRow] = field(default_factory=dict)

    def at(self, queue: str) -> QueueRow:
        """Find or add a queue."""
        return self.queues.setdefault(queue, QueueRow(queue))


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters; None means any. Settled ones have been replayed or discarded."""

    reason_code: str | None = None
    stage: str | None = None
    type: str | None = None
    queue: str | None = None
    job_id: int | None = None
    with_settled: bool = False


async def list_workers(
    tx: Transaction, *, after: WorkerPlace = FIRST_WORKER, page_size: int
) -> Page[WorkerRow, WorkerPlace]:
    """List workers, the living first. Needs a snapshot: the planner should be left alone."""
    rows = await _read_workers(tx, None, after, count_max=page_size + 1)
    if len(rows) <= page_size:
        return Page(rows, None)
    last = rows[page_size - 1]
    return Page(rows[:page_size], WorkerPlace(last.illness, last.worker_id))


async def get_worker(tx: Transaction, worker_id: str) -> WorkerRow:
    """Read one worker. Needs a snapshot: the planner should be left alone."""
    rows = await _read_workers(tx, worker_id, FIRST_WORKER, count_max=1)
    if not rows:
        raise NotFound("worker", worker_id)
    return rows[0]


async def _read_workers(
    tx: Transaction, worker_id: str | None, after: WorkerPlace, *, count_max: int
) -> list[WorkerRow]:
    rows = await tx.fetch(
        _FLEET["list_workers"],
        worker_id=worker_id,
        after_illness=after.illness,
        after_worker_id=after.worker_id,
        count_max=count_max,
        **_signs(),
    )
    return [WorkerRow(*row) for row in rows]


def _signs() -> dict[str, Any]:
    """Give a statement what it tells the health of workers by."""
    return {
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
        _FLEET["list_held"], worker_ids=list(worker_ids), tasks_max=HELD_SHOWN_MAX
    )
    for worker_id, job_id, task_index in held:
        loads[worker_id].task_ids.append(TaskId(job_id, task_index))
    booked = await tx.fetch(_FLEET["list_booked_of_workers"], worker_ids=list(worker_ids))
    stored = await specs.load(tx, {job_id for _, job_id, _ in booked})
    used: dict[str, Capacity] = defaultdict(Capacity)
    for worker_id, job_id, leases in booked:
        shape, sofar = shape_of(stored[job_id].spec), used[worker_id]
        used[worker_id] = Capacity(
            sofar.cpu + shape.cpu * leases,
            sofar.memory + shape.memory * leases,
            sofar.disk + shape.disk * leases,
            sofar.gpu + shape.gpu * leases,
        )
    return {worker_id: load._replace(used=used[worker_id]) for worker_id, load in loads.items()}


async def count_workers(tx: Transaction) -> dict[str, int]:
    """Count the workers by health."""
    rows = await tx.fetch(_FLEET["count_workers"], **_signs())
    return dict.fromkeys(HEALTH, 0) | {HEALTH[illness]: count for illness, count in rows}


async def count_leases(tx: Transaction) -> tuple[int, int]:
    """Count the leases: of open attempts, and of ended ones that are not released."""
    row = await tx.fetch_one(_FLEET["count_leases"])
    assert row is not None
    return row[0], row[1]


async def list_queues(tx: Transaction) -> QueueView:
    """List every queue that is paused, or has tasks in line, due later or running."""
    view = await list_lines(tx)
    rows = await tx.fetch(_FLEET["count_waiting"], count_max=WAITING_COUNTED_MAX)
    for queue, count in rows:
        view.at(queue).waiting = count
    for queue, pace in await _read_paces(tx, view.now):
        view.at(queue).finished_per_second = max(round(pace, 3), 0.0)
    return view


async def _read_paces(tx: Transaction, now: datetime) -> list[Any]:
    lately = now - timedelta(seconds=BUSY_PACE_SECONDS)
    row = await tx.fetch_one(_FLEET["count_events_since"], since=lately, count_max=PACE_SAMPLE_MAX)
    assert row is not None
    is_busy = row[0] * PACE_SECONDS > PACE_SAMPLE_MAX * BUSY_PACE_SECONDS
    since = lately if is_busy else now - timedelta(seconds=PACE_SECONDS)
    return await tx.fetch(_FLEET["count_finished"], since=since, count_max=PACE_SAMPLE_MAX)


async def list_lines(tx: Transaction) -> QueueView:
    """List every queue that is paused, or has tasks in line or running, without its pace."""
    view = QueueView(await tx.now())
    await _read_lines(tx, view)
    for queue, count in await tx.fetch(_FLEET["count_running"]):
        view.at(queue).running = count
    for queue, paused_by in await tx.fetch(_FLEET["list_paused"], count_max=PAUSED_MAX):
        view.at(queue).paused_by = paused_by
    return view


async def _read_lines(tx: Transaction, view: QueueView) -> None:
    rows = await tx.fetch(_FLEET["list_lines"], lines_max=LINES_MAX, count_max=DEPTH_COUNTED_MAX)
    for queue, oldest_at, depth in rows:
        line = view.at(queue)
        line.oldest_at, line.depth = oldest_at, depth
    deep = [line for line in view.queues.values() if line.depth == DEPTH_COUNTED_MAX]
    if not deep:
        return
    row = await tx.fetch_one(_FLEET["measure_ready"])
    assert row is not None
    share = min(SAMPLE_PAGES_MAX / max(row[0], 1), 1.0)
    sampled = dict(await tx.fetch(_FLEET["sample_depths"], percent=100 * share))
    for line in deep:
        line.depth = max(round(sampled.get(line.queue, 0) / share), DEPTH_COUNTED_MAX)


async def get_dead_letter(tx: Transaction, task_id: TaskId) -> DeadLetterRow:
    """Read one dead letter."""
    rows = await _read_dead_letters(tx, [task_id], LetterFilter(), count_max=1)
    if not rows:
        raise NotFound("dead letter", task_id)
    return rows[0]


async def list_dead_letters(
    tx: Transaction, wanted: LetterFilter, *, after: TaskId = FIRST_DEAD_LETTER, page_size: int
) -> Page[DeadLetterRow, TaskId]:
    """List dead letters by id; a page may be short and still not be the last one."""
    statement = _FLEET["walk_dead_letters" if wanted.with_settled else "walk_open_dead_letters"]
    if wanted.job_id is not None:
        after = max(after, TaskId(wanted.job_id, -1))

    async def walk(after: TaskId, count_max: int) -> list[TaskId]:
        rows = await tx.fetch(
            statement,
            after_job_id=after.job_id,
            after_task_index=after.task_index,
            last_job_id=JOB_ID_MAX if wanted.job_id is None else wanted.job_id,
            count_max=count_max,
        )
        return [TaskId(*row) for row in rows]

    async def read(task_ids: list[TaskId], count_max: int) -> list[DeadLetterRow]:
        return await _read_dead_letters(tx, task_ids, wanted, count_max=count_max)

    return await fill_page(walk, read, lambda row: row.id, after=after, page_size=page_size)


async def _read_dead_letters(
    tx: Transaction, task_ids: list[TaskId], wanted: LetterFilter, *, count_max: int
) -> list[DeadLetterRow]:
    rows = await tx.fetch(
        _FLEET["read_dead_letters"],
        job_ids=[task_id.job_id for task_id in task_ids],
        task_indexes=[task_id.task_index for task_id in task_ids],
        reason_code=wanted.reason_code,
        stage=wanted.stage,
        type=wanted.type,
        queue=wanted.queue,
        count_max=count_max,
    )
    return [DeadLetterRow(*row) for row in rows]
