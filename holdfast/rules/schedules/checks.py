"""Check how a schedule is described, so that every instant of it can be fired."""

import math
import re
from datetime import UTC, datetime

import msgspec

from holdfast.errors import Invalid, TooLarge
from holdfast.model.submitting.schedules import CATCH_UP_MAX, ScheduleTerms
from holdfast.model.submitting.spec import YEAR_SECONDS, Submission
from holdfast.rules.schedules.instants import (
    CRON_LENGTH_MAX,
    LAST,
    next_instant,
    read_zone,
)

NAME_LENGTH_MAX = 200
EVERY_SECONDS_MIN = 1.0
JITTER_SECONDS_MAX = 86_400.0
# Servers look twice a second: what is younger is not late.
LATE_SECONDS_MIN = 5.0
LABEL = "schedule"
_NAME = re.compile(r"\w[\w.:@/-]*")
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def check_schedule_name(name: str) -> None:
    """Refuse what no schedule can be called."""
    if len(name) > NAME_LENGTH_MAX:
        raise TooLarge("name", len(name), NAME_LENGTH_MAX, unit="characters")
    if not _NAME.fullmatch(name):
        problem = f"{name!r} is no name of a schedule; use letters, digits and ._:@/-"
        raise Invalid("name", problem)


def complete_terms(terms: ScheduleTerms, now: datetime) -> ScheduleTerms:
    """Check when a schedule fires, and give an interval the moment that it counts from."""
    if (terms.cron is None) == (terms.every is None):
        raise Invalid("cron", "or every says when it fires; give one of the two")
    read_zone(terms.tz)
    _check_range("late_max", terms.late_max, least=LATE_SECONDS_MIN, most=YEAR_SECONDS)
    _check_range("jitter", terms.jitter, least=0, most=JITTER_SECONDS_MAX)
    if not 1 <= terms.catch_up_max <= CATCH_UP_MAX:
        problem = f"is {terms.catch_up_max}; use 1 to {CATCH_UP_MAX}"
        raise Invalid("catch_up_max", problem)
    for field, moment in (("start_at", terms.start_at), ("end_at", terms.end_at)):
        _check_moment(field, moment)
    if terms.start_at is not None and terms.end_at is not None and terms.end_at < terms.start_at:
        raise Invalid("end_at", "is before start_at; no instant would be left")
    if terms.every is not None:
        _check_range("every", terms.every, least=EVERY_SECONDS_MIN, most=YEAR_SECONDS)
        if terms.start_at is None:
            terms = msgspec.structs.replace(terms, start_at=now.replace(microsecond=0))
    else:
        assert terms.cron is not None, "one of the two is given"
        if len(terms.cron) > CRON_LENGTH_MAX:
            raise TooLarge("cron", len(terms.cron), CRON_LENGTH_MAX, unit="characters")
        endless = msgspec.structs.replace(terms, end_at=None)
        if next_instant(endless, terms.start_at or now) is None:
            raise Invalid("cron", f"{terms.cron!r} never comes; name a day that there is")
    return terms


def _check_range(field: str, seconds: float, *, least: float, most: float) -> None:
    if not math.isfinite(seconds) or not least <= seconds <= most:
        raise Invalid(field, f"is {seconds:g} seconds; use {least:g} to {most:g}")


def _check_moment(field: str, moment: datetime | None) -> None:
    if moment is None:
        return
    if moment.tzinfo is None:
        raise Invalid(
            field, f"{moment.isoformat()} has no time zone; write it like 2026-11-18T09:00Z"
        )
    if not _EARLIEST <= moment < LAST:
        raise Invalid(field, f"is {moment.isoformat()}; use a time from 1970 to 8999")


def submission_at(template: Submission, name: str, instant: datetime) -> Submission:
    """Make the submission of one firing: it finds in its environment which one it is."""
    at = instant.astimezone(UTC).isoformat(timespec="auto").replace("+00:00", "Z")
    spec = template.spec
    variables = {"HOLDFAST_SCHEDULE": name, "HOLDFAST_SCHEDULED_AT": at}
    spec = msgspec.structs.replace(
        spec,
        environment={**spec.environment, **variables},
        labels={LABEL: name, **spec.labels},
    )
    return msgspec.structs.replace(template, spec=spec, actor=f"schedule:{name}")


def check_template(submission: Submission, *, tasks_max: int) -> None:
    """Refuse what the job of a schedule cannot say, since it is submitted more than once."""
    spec = submission.spec
    for field, value in (
        ("idempotency_key", spec.idempotency_key),
        ("not_before", spec.not_before),
        ("expires_at", spec.expires_at),
        ("depends_on", spec.depends_on or None),
    ):
        if value is not None:
            raise Invalid(f"spec.{field}", "would be the same in every firing; leave it out")
    if spec.chain is not None:
        problem = "goes with jobs that somebody submits; leave it out, and use overlap queue"
        raise Invalid("spec.chain", problem)
    if submission.num_tasks > tasks_max:
        raise TooLarge("spec.inputs", submission.num_tasks, tasks_max, unit="tasks")
