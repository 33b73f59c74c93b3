"""What somebody should look at: decided from how queues, placed work, errors, types, dead letters
and workers stand.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from holdfast.rules.reading.worker_failures import BadWorker

Kind = Literal[
    "failing_jobs",
    "failing_type",
    "dead_letters",
    "queue_stalled",
    "never_fits",
    "worker_lost",
    "worker_failing",
]
Severity = Literal["critical", "warning"]

ATTENTION_MAX = 50
JOBS_NAMED_MAX = 20
TYPES_NAMED_MAX = 3
FAILURES_MIN = 5
FAILING_SHARE, CRITICAL_SHARE = 0.2, 0.5
# What has just been submitted may wait for a moment before it counts as stuck.
STUCK_AFTER_SECONDS = 60.0
OLD_AFTER_SECONDS = 600.0
# How far back failures and losses are recent.
RECENT = timedelta(hours=1)
# An undo that failed leaves things half done, and nothing will try again.
_CRITICAL_REASONS = frozenset({"compensation_failed"})
_ORDER: dict[Severity, int] = {"critical": 0, "warning": 1}


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing to look at: what kind, how bad, of what, in a sentence, and how much of it.

    Where it is about some jobs: which, the first of them, or the fingerprint of their error.
    """

    kind: Kind
    severity: Severity
    subject: str
    message: str
    count: int
    job_ids: tuple[str, ...] = ()
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """How a queue does: what is in line and since when, what runs, and who serves it.

    `has_finished` something in the last minute, or it is not known that it has not.
    """

    queue: str
    depth: int
    waited_seconds: float = 0.0
    running: int = 0
    has_finished: bool = False
    paused_by: str | None = None
    is_served: bool = True
    # A limit of the whole queue that lets nothing start now.
    limited_by: str | None = None


@dataclass(frozen=True, slots=True)
class ImpossibleStanding:
    """Work that no worker could run: what it asks for, why not, of which jobs, how much."""

    asks_for: str
    why: str
    job_ids: tuple[int, ...]
    tasks: int
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class TypeStanding:
    """How many attempts of a type have ended lately, and how many of them failed."""

    type: str
    attempts: int
    failures: int

    @property
    def share(self) -> float:
        """Tell how many of all attempts failed."""
        return self.failures / max(self.attempts, 1)


@dataclass(frozen=True, slots=True)
class ErrorStanding:
    """Jobs that ended with the same error: how many, how many lately, of which types."""

    fingerprint: str
    example: str
    types: tuple[str, ...]
    jobs: int
    recent: int
    last_seconds: float
    # Of the recent ones nothing is left to be done: replayed with success, or discarded.
    is_settled: bool = False


@dataclass(frozen=True, slots=True)
class WorkerStanding:
    """A worker that is not there, why, and how many attempts it has not released."""

    worker_id: str
    is_lost: bool
    cause: str | None = None
    leases: int = 0


def list_attention(
    *,
    queues: Iterable[QueueStanding] = (),
    impossible: Iterable[ImpossibleStanding] = (),
    errors: Iterable[ErrorStanding] = (),
    types: Iterable[TypeStanding] = (),
    types_since: Iterable[TypeStanding] = (),
    dead_letters: Mapping[str, int] | None = None,
    workers: Iterable[WorkerStanding] = (),
    bad_workers: Iterable[BadWorker] = (),
) -> list[Attention]:
    """List what needs attention, the worst first, then the most; no more than a page of it.

    `types_since` is how types with settled errors did after these.
    """
    found = [
        *_stalled(queues),
        *_impossible(impossible),
        *_failing(errors, _by_type(types), _by_type(types_since)),
        *_dead(dead_letters or {}),
        *_missing(workers),
        *_failing_workers(bad_workers),
    ]
    found.sort(key=lambda one: (_ORDER[one.severity], -one.count, one.kind, one.subject))
    return found[:ATTENTION_MAX]


def _stalled(queues: Iterable[QueueStanding]) -> Iterator[Attention]:
    for row in queues:
        if row.depth > 0:
            found = _judge_queue(row)
            if found is not None:
                severity, message = found
                yield Attention("queue_stalled", severity, row.queue, message, row.depth)


def _judge_queue(row: QueueStanding) -> tuple[Severity, str] | None:
    """Say why a queue does not drain; the first reason that holds is the one to act on."""
    tasks = _count(row.depth, "task")
    if row.paused_by is not None:
        return "warning", f"paused by {row.paused_by} with {tasks} in line"
    if row.waited_seconds < STUCK_AFTER_SECONDS:
        return None
    waited = _duration(row.waited_seconds)
    if not row.is_served:
        left = f"; {_count(row.running, 'attempt')} left running" if row.running else ""
        return "critical", f"no worker serves it; {tasks} in line, the oldest for {waited}{left}"
    if row.limited_by is not None and not row.has_finished:
        held = f"limit {row.limited_by} lets nothing more start, {row.running} run"
        return "warning", f"{held}; {tasks} in line, the oldest for {waited}"
    if not row.has_finished and row.running == 0:
        return "critical", f"nothing runs or finishes; {tasks} in line, the oldest for {waited}"
    if not row.has_finished:
        return "warning", f"nothing finished in the last minute; {tasks} in line, {row.running} run"
    if row.waited_seconds > OLD_AFTER_SECONDS:
        return "warning", f"the oldest of {tasks} has waited for {waited}"
    return None


def _impossible(standings: Iterable[ImpossibleStanding]) -> Iterator[Attention]:
    for row in standings:
        if row.waited_seconds >= STUCK_AFTER_SECONDS:
            message = (
                f"{_count(row.tasks, 'task')} of {_count(len(row.job_ids), 'job')} could never fit "
                f"({row.why}), the oldest waits for {_duration(row.waited_seconds)}; "
                "cancel and ask for less, or start a worker that has it"
            )
            ids = tuple(str(job_id) for job_id in row.job_ids[:JOBS_NAMED_MAX])
            yield Attention("never_fits", "critical", row.asks_for, message, row.tasks, ids)


def _by_type(types: Iterable[TypeStanding]) -> dict[str, TypeStanding]:
    return {row.type: row for row in types}


def _failing(
    errors: Iterable[ErrorStanding],
    types: Mapping[str, TypeStanding],
    types_since: Mapping[str, TypeStanding],
) -> Iterator[Attention]:
    """Tell of errors, of however many types; of a type only what no error has accounted for."""
    accounted: set[str] = set()
    settled: set[str] = set()
    for row in errors:
        if row.is_settled:
            settled.update(row.types)
            continue
        known = [types[name] for name in row.types if name in types]
        attempts = sum(each.attempts for each in known)
        # What never got as far as an attempt has failed altogether.
        share = sum(each.failures for each in known) / attempts if attempts else 1.0
        is_many = row.recent >= FAILURES_MIN or any(map(_fails_often, known))
        if row.recent and is_many and share >= FAILING_SHARE:
            accounted.update(row.types)
            yield Attention(
                "failing_jobs",
                _severity(share),
                row.example,
                _tell_error(row),
                row.jobs,
                fingerprint=row.fingerprint,
            )
    since = [types_since[name] for name in sorted(settled & types_since.keys())]
    for each in [*(row for name, row in types.items() if name not in settled), *since]:
        if each.type not in accounted and _fails_often(each):
            message = (
                f"{each.failures} of {each.attempts} attempts failed within the last hour "
                f"({each.share:.0%})"
            )
            severity = _severity(each.share)
            yield Attention("failing_type", severity, each.type, message, each.failures)


def _fails_often(row: TypeStanding) -> bool:
    return row.failures >= FAILURES_MIN and row.share >= FAILING_SHARE


def _severity(share: float) -> Severity:
    return "critical" if share >= CRITICAL_SHARE else "warning"


def _tell_error(row: ErrorStanding) -> str:
    named = ", ".join(row.types[:TYPES_NAMED_MAX])
    if len(row.types) > TYPES_NAMED_MAX:
        named += f" and {_count(len(row.types) - TYPES_NAMED_MAX, 'other type')}"
    ended = f"{_count(row.jobs, 'job')} of {named} ended with it"
    last = f"the last {_duration(row.last_seconds)} ago"
    if row.recent == row.jobs:
        return f"{ended} within the last hour, {last}"
    return f"{ended}, {row.recent} within the last hour, {last}"


def _dead(dead_letters: Mapping[str, int]) -> Iterator[Attention]:
    for reason, count in dead_letters.items():
        if count > 0:
            severity: Severity = "critical" if reason in _CRITICAL_REASONS else "warning"
            message = f"{_count(count, 'dead letter')} to be replayed or discarded"
            yield Attention("dead_letters", severity, reason, message, count)


def _missing(workers: Iterable[WorkerStanding]) -> Iterator[Attention]:
    for row in workers:
        held = _count(row.leases, "attempt")
        if row.is_lost:
            cause = f"lost: {row.cause or 'no cause is known'}"
            # What it holds starts nowhere else before it is known to be gone.
            severity: Severity = "critical" if row.leases else "warning"
            message = f"{cause}; holds {held}" if row.leases else cause
            yield Attention("worker_lost", severity, row.worker_id, message, row.leases)
        elif row.leases:
            message = f"silent, and holds {held}"
            yield Attention("worker_lost", "warning", row.worker_id, message, row.leases)


def _failing_workers(workers: Iterable[BadWorker]) -> Iterator[Attention]:
    for row in workers:
        message = (
            f"{row.failures} of {row.attempts} attempts failed there within the last hour; "
            f"of those on other workers, {row.others_share:.0%}"
        )
        # Whatever comes to it costs a retry, so it is to be drained.
        yield Attention("worker_failing", "critical", row.worker_id, message, row.failures)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _duration(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
