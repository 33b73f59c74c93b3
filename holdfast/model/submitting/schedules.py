"""Schedules: when a job is to be submitted again and again, and what holds when that goes wrong."""

from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

CatchUp = Literal["skip", "one", "all"]
Overlap = Literal["skip", "queue", "cancel", "allow"]
FiringKind = Literal["scheduled", "caught_up", "manual", "backfill"]
FiringOutcome = Literal["fired", "skipped", "refused"]
CATCH_UP_MAX = 100


class ScheduleTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a schedule fires; durations are seconds. Either `cron` or `every` is given.

    `every` counts from `start_at`. An instant that is looked at more than `late_max` after its time
    is late: `catch_up` says what becomes of those. `overlap` says what a firing does while a job of
    an earlier one has not ended.
    """

    cron: str | None = None
    every: float | None = None
    tz: str = "UTC"
    start_at: datetime | None = None
    end_at: datetime | None = None
    catch_up: CatchUp = "skip"
    # Of `all`: how many late instants are fired at most, the newest.
    catch_up_max: int = 10
    late_max: float = 60.0
    overlap: Overlap = "skip"
    jitter: float = 0.0


# What users write.
Schedule = ScheduleTerms


class Firing(NamedTuple):
    """An instant at which a schedule fires, and why it does."""

    instant: datetime
    kind: FiringKind


class Missed(NamedTuple):
    """Instants, the first to the last of them, that came to nothing because nobody looked."""

    first: datetime
    last: datetime
    instants: int
