"""Schedules as answers: rows, and the instants that follow from them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from holdfast.api.convert import job_state, ms, to_ms
from holdfast.errors import Invalid
from holdfast.model.shapes import read_tolerantly
from holdfast.model.submitting.schedules import ScheduleTerms
from holdfast.model.submitting.spec import Entrypoint, JobSpec
from holdfast.rules.schedules.instants import instants_after
from holdfast.store.reads.schedules import FiringRow, MissCount, MissRow, ScheduleRow
from holdfast.store.tables.submitting.schedules import parse_inputs
from holdfast.wire.schedules import FiringStatus, MissStatus, ScheduleState, ScheduleStatus

NEXT_SHOWN = 5


def schedule(
    row: ScheduleRow, last: Sequence[FiringRow], missed: MissCount | None
) -> ScheduleStatus:
    """Tell of a schedule without what only some may see: its arguments and environment."""
    spec = read_tolerantly(row.spec, JobSpec)
    terms = read_tolerantly(row.terms, ScheduleTerms)
    inputs = parse_inputs(row.inputs)
    return ScheduleStatus(
        name=row.name,
        state=_state(row),
        runs=_runs(spec.entrypoint),
        type=spec.type,
        queue=spec.queue,
        owner=spec.owner,
        num_tasks=len(inputs) if inputs is not None else spec.replicas or 1,
        cron=terms.cron,
        every=terms.every,
        tz=terms.tz,
        start_at_ms=ms(terms.start_at),
        end_at_ms=ms(terms.end_at),
        catch_up=terms.catch_up,
        catch_up_max=terms.catch_up_max,
        late_max=terms.late_max,
        overlap=terms.overlap,
        jitter=terms.jitter,
        version=row.version,
        declared_by=row.declared_by,
        created_at_ms=to_ms(row.created_at),
        created_by=row.created_by,
        changed_at_ms=to_ms(row.changed_at),
        changed_by=row.changed_by,
        paused_at_ms=ms(row.paused_at),
        paused_by=row.paused_by,
        retired_at_ms=ms(row.retired_at),
        next_firings_ms=_next(terms, row.next_at),
        last_firings=[firing(each) for each in last],
        missed_instants=0 if missed is None else missed.instants,
        last_missed_ms=None if missed is None else to_ms(missed.last_instant),
        problem=row.problem,
    )


def spec_of(row: ScheduleRow) -> dict[str, Any]:
    """Give the job that a schedule submits, as it was sent."""
    spec: dict[str, Any] = msgspec.json.decode(row.spec)
    if row.inputs is not None:
        spec["inputs"] = msgspec.json.decode(row.inputs)
    if row.placed:
        spec["placed"] = True
    return spec


def firing(row: FiringRow) -> FiringStatus:
    """Tell what an instant has come to."""
    return FiringStatus(
        instant_ms=to_ms(row.instant),
        kind=row.kind,
        outcome=row.outcome,
        job_id=None if row.job_id is None else str(row.job_id),
        job_state=None if row.job_state is None else job_state(row.job_state),
        problem=row.problem,
        fired_at_ms=to_ms(row.fired_at),
    )


def miss(row: MissRow) -> MissStatus:
    """Tell what was missed."""
    return MissStatus(
        first_instant_ms=to_ms(row.first_instant),
        last_instant_ms=to_ms(row.last_instant),
        instants=row.instants,
        noted_at_ms=to_ms(row.noted_at),
    )


def _state(row: ScheduleRow) -> ScheduleState:
    if row.retired_at is not None:
        return "retired"
    if row.paused_at is not None:
        return "paused"
    return "ended" if row.next_at is None else "active"


def _next(terms: ScheduleTerms, next_at: datetime | None) -> list[int]:
    if next_at is None:
        return []
    try:
        following = instants_after(terms, next_at - timedelta(microseconds=1))
        return [to_ms(instant) for instant in islice(following, NEXT_SHOWN)]
    except Invalid:  # a time zone that is gone: its problem says so
        return [to_ms(next_at)]


def _runs(entrypoint: Entrypoint) -> str:
    if entrypoint.function is not None:
        return entrypoint.function
    if entrypoint.command:
        return entrypoint.command[0]
    return "shell" if entrypoint.shell is not None else "pickled function"
