"""What `top` shows: one look at everything by the API, and its tables. Nothing here waits."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.cli.output.text import age, decimal, span
from holdfast.cli.output.write import Column
from holdfast.rules.checkup.cluster import CHORE_LATE_SECONDS, SERVER_SILENT_SECONDS
from holdfast.wire.checkup import ServerStatus
from holdfast.wire.overview import Attention, LiveTasks, Series
from holdfast.wire.status import JobStatus, QueueStatus, WorkerStatus

if TYPE_CHECKING:
    from holdfast.client.client import Client

WINDOW_SECONDS = 600
RATE_STEPS = 3  # of 10 s
WORKERS_MAX, JOBS_MAX = 200, 50
ENDS = ("submitted", "succeeded", "failed", "worker_failed", "killed", "dead_lettered", "retried")
ALWAYS = ("submitted", "succeeded", "failed")
SORTS = ("load", "name", "age")
_HEALTH = {name: place for place, name in enumerate(("lost", "silent", "failing", "healthy"))}


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one moment; `rates` are tasks per second by how they ended, of late."""

    at_ms: int
    server: str
    version: str | None
    servers: list[ServerStatus]
    tasks: LiveTasks
    rates: dict[str, float]
    rates_over_seconds: int
    dead_letters: int
    attention: list[Attention]
    queues: list[QueueStatus]
    workers: list[WorkerStatus]
    worker_counts: dict[str, int]
    jobs: list[JobStatus]


class Section(NamedTuple):
    """A table with its title; of its rows, as many are drawn as there is room for."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


def take_look(client: "Client", server: str) -> Look:
    """Ask for everything, in five bounded requests; a server's own cache answers the dear one."""
    from holdfast.errors import NotFound

    overview = client.overview.get(WINDOW_SECONDS)
    try:
        servers = client.servers.list().servers
    except NotFound:  # of an earlier version
        servers = []
    rates, seconds = add_up_rates(overview.series, overview.step_seconds)
    return Look(
        at_ms=overview.now_ms,
        server=server,
        # The one that began last: the list has those that were killed within the hour, too.
        version=servers[-1].version if servers else None,
        servers=servers,
        tasks=overview.tasks,
        rates=rates,
        rates_over_seconds=seconds,
        dead_letters=sum(one.count for one in overview.attention if one.kind == "dead_letters"),
        attention=overview.attention,
        queues=client.queues.list().queues,
        workers=client.workers.list(count_max=WORKERS_MAX).workers,
        worker_counts=overview.workers,
        jobs=client.jobs.list(state="running", count_max=JOBS_MAX).jobs,
    )


def add_up_rates(series: Series, step_seconds: int) -> tuple[dict[str, float], int]:
    """Add up the last steps that are whole: the one under way, and its counts, are not yet."""
    seconds = RATE_STEPS * step_seconds
    rates = {}
    for name in ENDS:
        counts = getattr(series, name)[-1 - RATE_STEPS : -1]
        rates[name] = sum(count or 0 for count in counts) / seconds
    return rates, seconds


def summarise(look: Look) -> list[str]:
    """Say in three lines what is under way."""
    tasks, rates = look.tasks, look.rates
    stuck = [
        f"{count} {why}"
        for count, why in (
            (tasks.paused, "paused"),
            (tasks.unserved, "unserved"),
            (tasks.never_fits, "never fit"),
        )
        if count
    ]
    standing = [
        f"{'~' if tasks.is_estimate else ''}{tasks.ready} ready",
        *stuck,
        *([f"{tasks.gated} gated"] if tasks.gated else []),
        *([f"{tasks.awaiting_signal} wait for a signal"] if tasks.awaiting_signal else []),
        f"{tasks.waiting} due later",
        f"{tasks.assigned} assigned",
        f"{tasks.building} building",
        f"{tasks.running} running",
    ]
    ended = [
        f"{rates[name]:.1f} {name.replace('_', ' ')}"
        for name in ENDS
        if rates[name] or name in ALWAYS
    ]
    health = [f"{count} {name}" for name, count in look.worker_counts.items() if count]
    return [
        "tasks    " + ", ".join(standing),
        "per s    " + ", ".join(ended),
        f"workers  {', '.join(health) or 'none'}; dead letters {look.dead_letters}",
    ]


def list_sections(look: Look, *, sort: str = SORTS[0], only: str = "") -> list[Section]:
    """Make the tables, sorted, and with names that hold a text."""
    silent_ms = SERVER_SILENT_SECONDS * 1000
    live = [each for each in look.servers if look.at_ms - each.last_seen_at_ms < silent_ms]
    wanted = only.lower()

    def is_wanted(*names: str) -> bool:
        return any(wanted in name.lower() for name in names)

    queues = [each for each in look.queues if is_wanted(each.queue)]
    workers = [each for each in look.workers if is_wanted(each.name, each.host, *each.queues)]
    jobs = [each for each in look.jobs if is_wanted(each.name, each.type, each.owner)]
    found = [
        Section("attention", _ATTENTION, [_attention(each) for each in look.attention]),
        Section("servers", _SERVERS, [_server(each, look.at_ms) for each in live]),
        Section(
            "queues", _QUEUES, [_queue(each) for each in sorted(queues, key=_QUEUE_ORDERS[sort])]
        ),
        Section(
            "workers",
            _WORKERS,
            [_worker(each) for each in sorted(workers, key=_WORKER_ORDERS[sort])],
        ),
        Section(
            "running jobs", _JOBS, [_job(each) for each in sorted(jobs, key=_JOB_ORDERS[sort])]
        ),
    ]
    return [section for section in found if section.rows]


_ATTENTION = (Column("severity"), Column("what", flexible=True), Column("why", flexible=True))
_SERVERS = (
    Column("server", flexible=True),
    Column("version"),
    Column("up"),
    Column("clock", right=True),
    Column("late", flexible=True),
)
_QUEUES = (
    Column("queue", flexible=True),
    Column("depth", right=True),
    Column("oldest", right=True),
    Column("running", right=True),
    Column("per s", right=True),
    Column("workers", right=True),
    Column("remark", flexible=True),
)
_WORKERS = (
    Column("worker", flexible=True),
    Column("health"),
    Column("running", right=True),
    Column("cpu", right=True),
    Column("seen"),
    Column("what runs", flexible=True),
)
_JOBS = (
    Column("job"),
    Column("name", flexible=True),
    Column("queue", flexible=True),
    Column("running", right=True),
    Column("done", right=True),
    Column("for", right=True),
)
Order = Callable[..., tuple[object, ...]]
_QUEUE_ORDERS: dict[str, Order] = {
    "load": lambda each: (-each.depth - each.gated - each.running, each.queue),
    "name": lambda each: (each.queue,),
    "age": lambda each: (-(each.oldest_age_seconds or 0.0), each.queue),
}
_WORKER_ORDERS: dict[str, Order] = {
    "load": lambda each: (_HEALTH.get(each.health, 0) // 3, -each.running, each.name),
    "name": lambda each: (each.name, each.worker_id),
    "age": lambda each: (each.registered_at_ms, each.name),
}
_JOB_ORDERS: dict[str, Order] = {
    "load": lambda each: (-each.tasks_running, each.job_id),
    "name": lambda each: (each.name, each.job_id),
    "age": lambda each: (each.started_at_ms or each.submitted_at_ms, each.job_id),
}


def _attention(one: Attention) -> Sequence[str]:
    return one.severity, f"{one.kind.replace('_', ' ')} {one.subject}", one.message


def _server(each: ServerStatus, now_ms: int) -> Sequence[str]:
    late = [
        chore.name
        for chore in each.report.chores
        if chore.error or chore.late_seconds >= CHORE_LATE_SECONDS
    ]
    up = span(max(now_ms - each.started_at_ms, 0) / 1000)
    return each.host, each.version, up, f"{each.clock_skew_seconds:+z.1f} s", ", ".join(late)


def _queue(each: QueueStatus) -> Sequence[str]:
    oldest = "" if each.oldest_age_seconds is None else span(each.oldest_age_seconds)
    remarks = (
        "paused" if each.paused else "",
        "" if each.is_served else "unserved",
        f"{each.never_fits} fit no worker" if each.never_fits else "",
        f"{each.gated} wait for a limit" if each.gated else "",
        f"limit {each.limited_by} is used up" if each.limited_by else "",
    )
    return (
        *(each.queue, str(each.depth), oldest, str(each.running)),
        *(f"{each.finished_per_second:.1f}", str(each.workers), ", ".join(filter(None, remarks))),
    )


def _worker(each: WorkerStatus) -> Sequence[str]:
    of = each.resources
    cpu = "" if of is None else f"{decimal(of.used.cpu)}/{decimal(of.capacity.cpu)}"
    seen = age(each.last_answer_at_ms if each.placed else each.last_seen_at_ms)
    runs = each.lost_cause or each.last_failure if each.health != "healthy" else ""
    tasks = ", ".join(each.running_tasks)
    return each.name, each.health, str(each.running), cpu, seen, tasks or runs or ""


def _job(each: JobStatus) -> Sequence[str]:
    began = each.started_at_ms or each.submitted_at_ms
    live = each.tasks_pending + each.tasks_assigned + each.tasks_building + each.tasks_running
    done = f"{each.num_tasks - live}/{each.num_tasks}"
    shown = age(began).removesuffix(" ago")
    return each.job_id, each.name, each.queue or "placed", str(each.tasks_running), done, shown
