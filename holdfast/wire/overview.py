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

    Counts are of tasks that moved there within the step; depth and running are as they stood at
    its end. Waits are from eligible to claimed.
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

    `ready` can be claimed or placed now, `waiting` is due later; both count as pending. A deep line
    is measured by a sample: then `is_estimate`.
    """

    ready: int
    waiting: int
    assigned: int
    building: int
    running: int
    is_estimate: bool


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody should look at.

    kind: failing_type, dead_letters, queue_stalled or worker_lost; `subject` is the type of job,
    the reason code, the queue or the worker.
    """

    kind: str
    severity: str  # warning or critical
    subject: str
    message: str
    count: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """How the system does now, and how it did within the window."""

    now_ms: int
    window_seconds: int
    step_seconds: int
    tasks: LiveTasks
    # Tasks that moved there within the window, by the name of the state.
    ended: dict[str, int]
    workers: dict[str, int]
    attention: list[Attention]
    series: Series
