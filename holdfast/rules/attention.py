"""What somebody should look at, decided from how queues, types, dead letters and workers stand."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

Kind = Literal["failing_type", "dead_letters", "queue_stalled", "worker_lost"]
Severity = Literal["critical", "warning"]

ATTENTION_MAX = 50
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
    """One thing to look at: what kind, how bad, of what, in a sentence, and how much of it."""

    kind: Kind
    severity: Severity
    subject: str
    message: str
    count: int


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


@dataclass(frozen=True, slots=True)
class TypeStanding:
    """How many attempts of a type have ended lately, and how many of them failed."""

    type: str
    attempts: int
    failures: int


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
    types: Iterable[TypeStanding] = (),
    dead_letters: Mapping[str, int] | None = None,
    workers: Iterable[WorkerStanding] = (),
) -> list[Attention]:
    """List what needs attention, the worst first, then the most; no more than a page of it."""
    found = [
        *_stalled(queues),
        *_failing(types),
        *_dead(dead_letters or {}),
        *_missing(workers),
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
    if not row.has_finished and row.running == 0:
        if not row.is_served:
            return "critical", f"no worker serves it; {tasks} in line, the oldest for {waited}"
        return "critical", f"nothing runs or finishes; {tasks} in line, the oldest for {waited}"
    if not row.has_finished:
        return "warning", f"nothing finished in the last minute; {tasks} in line, {row.running} run"
    if row.waited_seconds > OLD_AFTER_SECONDS:
        return "warning", f"the oldest of {tasks} has waited for {waited}"
    return None


def _failing(types: Iterable[TypeStanding]) -> Iterator[Attention]:
    for row in types:
        share = row.failures / max(row.attempts, 1)
        if row.failures >= FAILURES_MIN and share >= FAILING_SHARE:
            severity: Severity = "critical" if share >= CRITICAL_SHARE else "warning"
            message = (
                f"{row.failures} of {row.attempts} attempts failed within the last hour "
                f"({share:.0%})"
            )
            yield Attention("failing_type", severity, row.type, message, row.failures)


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


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _duration(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
