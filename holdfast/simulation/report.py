"""What a run has shown, in numbers that are the same whenever the seed is."""

from collections.abc import Sequence

import msgspec


class Waits(msgspec.Struct, frozen=True):
    """How long attempts stood in line before they were given to a worker, in seconds."""

    attempts: int
    p50: float
    p95: float
    longest: float


class Fates(msgspec.Struct, frozen=True):
    """What became of the tasks of a type, and what it took."""

    tasks: int
    succeeded: int
    failed: int
    killed: int
    dead_lettered: int
    unfinished: int
    retries: int
    # Attempts that were lost with their workers: those that cost a preemption, and the others.
    losses_charged: int
    losses_free: int


class Held(msgspec.Struct, frozen=True):
    """What a limit has held back: how much waiting, and how many tasks at once at most."""

    task_hours: float
    most_at_once: int


class Fired(msgspec.Struct, frozen=True):
    """What became of the instants of a schedule."""

    fired: int
    caught_up: int
    skipped: int
    missed: int


class Usage(msgspec.Struct, frozen=True):
    """What share of the workers of one name was in use, of the time that they were there."""

    cpu: float
    gpu: float
    slots: float
    breakdowns: int
    # Of the time in which none of them is away.
    available: float


class Report(msgspec.Struct, frozen=True):
    """A run, from its seed."""

    seed: int
    days: float
    jobs: dict[str, int]
    by_type: dict[str, Fates]
    waits_by_type: dict[str, Waits]
    waits_by_owner: dict[str, Waits]
    dead_letters: dict[str, int]
    limits: dict[str, Held]
    schedules: dict[str, Fired]
    fleet: dict[str, Usage]
    # What stood in line at the end, and for how long the oldest had.
    in_line: int
    oldest_in_line: float

    def as_json(self) -> bytes:
        """Write it for programs: the same bytes for the same plan and seed."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"))

    def as_text(self) -> str:
        """Write it for people."""
        return "\n".join(_describe(self))


def summarize(waits: list[float]) -> Waits:
    """Sum up how long attempts waited; each number is one that was measured."""
    ordered = sorted(waits)
    last = len(ordered) - 1
    p50, p95 = (ordered[round(last * share)] for share in (0.5, 0.95))
    return Waits(len(ordered), round(p50, 3), round(p95, 3), round(ordered[-1], 3))


def _describe(report: Report) -> list[str]:
    ends = ", ".join(f"{count} {state.lower()}" for state, count in report.jobs.items() if count)
    lines = [f"{report.days:g} days, seed {report.seed}: {ends or 'no jobs'}", ""]
    lines += _table(
        ("type", "tasks", "retries", "lost", "dead", "p50", "p95", "longest"),
        [
            (name, f.tasks, f.retries, f.losses_charged + f.losses_free, f.dead_lettered, *waits)
            for name, f in report.by_type.items()
            for waits in [_words(report.waits_by_type.get(name))]
        ],
    )
    owners = [
        (name, waits.attempts, *_words(waits)) for name, waits in report.waits_by_owner.items()
    ]
    lines += _table(("owner", "attempts", "p50", "p95", "longest"), owners)
    lines += _table(
        ("workers", "cpu", "gpu", "slots", "broke", "there"),
        [
            (
                name,
                *(f"{share:.0%}" for share in (u.cpu, u.gpu, u.slots)),
                u.breakdowns,
                f"{u.available:.1%}",
            )
            for name, u in report.fleet.items()
        ],
    )
    limits = [(name, held.task_hours, held.most_at_once) for name, held in report.limits.items()]
    lines += _table(("limit", "task hours", "most at once"), limits)
    fired = [(name, *msgspec.structs.astuple(each)) for name, each in report.schedules.items()]
    lines += _table(("schedule", "fired", "caught up", "skipped", "missed"), fired)
    lines += _table(("dead letters", "tasks"), list(report.dead_letters.items()))
    if report.in_line:
        lines.append(
            f"{report.in_line} tasks in line at the end, the oldest since "
            f"{_seconds(report.oldest_in_line)}"
        )
    return lines


def _words(waits: Waits | None) -> tuple[str, ...]:
    if waits is None:
        return ("", "", "")
    return tuple(_seconds(each) for each in (waits.p50, waits.p95, waits.longest))


def _seconds(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> list[str]:
    if not rows:
        return []
    cells = [head, *(tuple(str(value) for value in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "  ".join(
            text.rjust(width) if column else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return [*lines, ""]
