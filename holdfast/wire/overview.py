"""What the first page of the dashboard shows: how the system does, and what needs attention."""

from typing import Annotated

import msgspec

from holdfast.wire.requests import Request

WINDOW_SECONDS_MIN, WINDOW_SECONDS_MAX = 600, 7 * 24 * 3600


class OverviewQuery(Request, frozen=True):
    """How far back to look."""

    window_seconds: Annotated[int, msgspec.Meta(ge=WINDOW_SECONDS_MIN, le=WINDOW_SECONDS_MAX)] = (
        3600
    )


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What happened over time: one value per step in each list, null where nothing is known.

    An end is counted once, within its step: as dead_lettered if the task was put aside, otherwise
    by how the attempt ended; retried are those of them that were tried again. Depth and running
    are as they stood at its end. Waits are from eligible to claimed.
    """

    at_ms: list[int]
    submitted: list[int | None]
    succeeded: list[int | None]
    failed: list[int | None]
    worker_failed: list[int | None]
    killed: list[int | None]
    dead_lettered: list[int | None]
    retried: list[int | None]
    depth: list[int | None]
    running: list[int | None]
    wait_p50_ms: list[float | None]
    wait_p95_ms: list[float | None]


class LiveTasks(msgspec.Struct, frozen=True, kw_only=True):
    """Where tasks stand that have not finished.

    All that stand in line, each counted once: `ready` can be claimed or placed now, `paused` stand
    in a queue that is paused, `unserved` in one that no worker serves, `never_fits` ask for more
    than any worker has. Beside the line, `gated` wait for a limit, `awaiting_signal` for a signal,
    and `waiting` are due later. These count as pending. A deep line is measured by a sample: then
    `is_estimate`.
    """

    ready: int
    paused: int
    unserved: int
    never_fits: int
    waiting: int
    assigned: int
    building: int
    running: int
    is_estimate: bool
    # Older servers do not send them.
    gated: int = 0
    awaiting_signal: int = 0


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody should look at.

    kind: failing_jobs, failing_type, dead_letters, queue_stalled, never_fits, worker_lost or
    worker_failing; `subject` is the error, the type of job, the reason code, the queue, what the
    tasks ask for, or the worker. Jobs are listed by `fingerprint`, or some of them are named.
    """

    kind: str
    severity: str  # warning or critical
    subject: str
    message: str
    count: int
    job_ids: list[str] = []
    fingerprint: str | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How the system does now, and how it did within the window."""

    now_ms: int
    window_seconds: int
    step_seconds: int
    tasks: LiveTasks
    # Ends within the window by the name of the state, each counted once; retried attempts, too.
    ended: dict[str, int]
    workers: dict[str, int]
    attention: list[Attention]
    series: Series
