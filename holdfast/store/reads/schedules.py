"""Schedules as people read them: when they fire next, what they have fired, what they missed."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

from holdfast.errors import NotFound
from holdfast.model.submitting.schedules import FiringKind, FiringOutcome
from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SCHEDULES = load_statements("reads/schedules")
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


class ScheduleRow(NamedTuple):
    """A schedule; spec, inputs and terms are JSON texts."""

    schedule_id: int
    name: str
    spec: str
    inputs: str | None
    placed: bool
    terms: str
    declared_by: str | None
    version: int
    created_at: datetime
    created_by: str
    changed_at: datetime
    changed_by: str
    paused_at: datetime | None
    paused_by: str | None
    retired_at: datetime | None
    next_at: datetime | None
    due_at: datetime | None
    problem: str | None


class FiringRow(NamedTuple):
    """What an instant has come to, and how its job stands if it is still there."""

    schedule_id: int
    instant: datetime
    kind: FiringKind
    outcome: FiringOutcome
    job_id: int | None
    problem: str | None
    fired_at: datetime
    job_state: int | None


class MissCount(NamedTuple):
    """How many instants a schedule has missed, and the last of them."""

    instants: int
    last_instant: datetime


class MissRow(NamedTuple):
    """Instants that nobody looked at, the first to the last."""

    first_instant: datetime
    last_instant: datetime
    instants: int
    noted_at: datetime


async def list_schedules(tx: Transaction, *, after: str, count_max: int) -> list[ScheduleRow]:
    """List schedules by name."""
    rows = await tx.fetch(_SCHEDULES["list_schedules"], after=after, count_max=count_max)
    return list(map(ScheduleRow._make, rows))


async def get_schedule(tx: Transaction, name: str) -> ScheduleRow:
    """Read a schedule, or raise NotFound."""
    row = await tx.fetch_one(_SCHEDULES["find_schedule"], name=name)
    if row is None:
        raise NotFound("schedule", name)
    return ScheduleRow._make(row)


async def list_last_firings(
    tx: Transaction, schedule_ids: Collection[int], *, count_max: int
) -> dict[int, list[FiringRow]]:
    """List the last firings of each schedule, the newest first."""
    rows = await tx.fetch(
        _SCHEDULES["list_last_firings"], schedule_ids=list(schedule_ids), count_max=count_max
    )
    found: dict[int, list[FiringRow]] = {schedule_id: [] for schedule_id in schedule_ids}
    for row in map(FiringRow._make, rows):
        found[row.schedule_id].append(row)
    return found


async def list_firings(
    tx: Transaction, schedule_id: int, *, before: datetime = END_OF_TIME, count_max: int
) -> list[FiringRow]:
    """List the firings of a schedule, the newest first."""
    rows = await tx.fetch(
        _SCHEDULES["list_firings"], schedule_id=schedule_id, before=before, count_max=count_max
    )
    return list(map(FiringRow._make, rows))


async def count_misses(tx: Transaction, schedule_ids: Collection[int]) -> dict[int, MissCount]:
    """Count what schedules have missed, as far as that is kept."""
    rows = await tx.fetch(_SCHEDULES["count_misses"], schedule_ids=list(schedule_ids))
    return {row[0]: MissCount(row[1], row[2]) for row in rows}


async def list_last_misses(tx: Transaction, schedule_id: int, *, count_max: int) -> list[MissRow]:
    """List what a schedule has missed last, the newest first."""
    rows = await tx.fetch(
        _SCHEDULES["list_last_misses"], schedule_id=schedule_id, count_max=count_max
    )
    return list(map(MissRow._make, rows))
