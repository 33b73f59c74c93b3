"""Schedules on the wire: when a job is submitted, what was fired, and what was missed."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta

from holdfast.model.submitting.schedules import (
    CatchUp,
    FiringKind,
    FiringOutcome,
    Overlap,
    ScheduleTerms,
)
from holdfast.wire.requests import JobRequest, Moment, PageSize, Request, WorkerIdText

LIST_PATH = "/api/schedules"
DECLARE_PATH = "/internal/schedules"
ScheduleText = Annotated[
    str,
    Meta(
        extra_json_schema={
            "pattern": r"^\w[\w.:@/-]*$",
            "maxLength": 200,
            "examples": ["nightly"],
        }
    ),
]
ScheduleState = Literal["active", "paused", "ended", "retired"]


class ScheduleRequest(Request, frozen=True):
    """All that a schedule is: the job it submits, and when; what is left out is the default.

    Either `cron` or `every` is given. Durations are seconds. With `if_version` it is stored only if
    nobody has changed it since that version was read; 0 says that there was none.
    """

    spec: JobRequest
    cron: str | None = None
    every: float | None = None
    tz: str = "UTC"
    start_at_ms: Moment | None = None
    end_at_ms: Moment | None = None
    catch_up: CatchUp = "skip"
    catch_up_max: int = 10
    late_max: float = 60.0
    overlap: Overlap = "skip"
    jitter: float = 0.0
    if_version: Annotated[int, Meta(ge=0)] | None = None


class DeclaredSchedule(Request, frozen=True):
    """The schedule that the decorator of a function declares; its name is the function's path."""

    function: str
    spec: JobRequest
    terms: ScheduleTerms


class DeclareRequest(Request, frozen=True):
    """A worker names all schedules that its modules declare; what they no longer do retires."""

    worker_id: WorkerIdText
    modules: list[str]
    schedules: list[DeclaredSchedule]


class DeclareAnswer(msgspec.Struct, frozen=True):
    """The schedules that are new or others than before, what retired, and what was not taken."""

    changed: list[str]
    retired: list[str]
    refused: dict[str, str] = {}


class ScheduleListQuery(Request, frozen=True):
    """Which schedules to list: all, by name."""

    page_size: PageSize = 100
    page_token: str | None = None


class FiringListQuery(Request, frozen=True):
    """Which firings to list: all of a schedule, the newest first."""

    page_size: PageSize = 100
    page_token: str | None = None


class RunNowRequest(Request, frozen=True):
    """Fire a schedule at this moment; a repeat under its key is answered with the first job."""

    idempotency_key: str | None = None


class BackfillRequest(Request, frozen=True):
    """Fire the instants of a range that have passed and have no job, both ends included.

    One after another, unless the schedule's overlap, or the one given here, is `allow`.
    """

    from_ms: Moment
    until_ms: Moment
    overlap: Overlap | None = None
    dry_run: bool = False


class FiringStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What an instant has come to; `job_state` is null where its job is gone, or there is none."""

    instant_ms: int
    kind: FiringKind
    outcome: FiringOutcome
    job_id: str | None
    job_state: str | None
    problem: str | None
    fired_at_ms: int


class FiringPage(msgspec.Struct, frozen=True):
    """Some firings, the newest first."""

    firings: list[FiringStatus]
    next_page_token: str | None = None


class MissStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Instants that passed without anybody looking, the first to the last."""

    first_instant_ms: int
    last_instant_ms: int
    instants: int
    noted_at_ms: int


class ScheduleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: what it runs and when, what comes next and what came last.

    `runs` is a function, or the program of a command. `declared_by` is the function whose decorator
    says all this; null where somebody has set it. `problem` is why it could not be fired just now.
    """

    name: str
    state: ScheduleState
    runs: str
    type: str | None
    queue: str | None
    owner: str | None
    num_tasks: int
    cron: str | None
    every: float | None
    tz: str
    start_at_ms: int | None
    end_at_ms: int | None
    catch_up: CatchUp
    catch_up_max: int
    late_max: float
    overlap: Overlap
    jitter: float
    version: int
    declared_by: str | None
    created_at_ms: int
    created_by: str
    changed_at_ms: int
    changed_by: str
    paused_at_ms: int | None
    paused_by: str | None
    retired_at_ms: int | None
    next_firings_ms: list[int]
    last_firings: list[FiringStatus]
    missed_instants: int
    last_missed_ms: int | None
    problem: str | None


class SchedulePage(msgspec.Struct, frozen=True):
    """Some schedules, by name."""

    schedules: list[ScheduleStatus]
    next_page_token: str | None = None


class ScheduleDetails(ScheduleStatus, frozen=True, kw_only=True):
    """A schedule with the job that it submits, and what it missed last."""

    spec: dict[str, Any]
    last_misses: list[MissStatus]


class RunNowAnswer(msgspec.Struct, frozen=True):
    """The job of a firing by hand."""

    job_id: str


class BackfillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many instants lie in a range, how many of them had a job before, and the new jobs."""

    instants: int
    already: int
    job_ids: list[str]
    dry_run: bool = False


def schedule_path(name: str) -> str:
    """Write the address of a schedule."""
    return f"{LIST_PATH}/{quote(name, safe='')}"
