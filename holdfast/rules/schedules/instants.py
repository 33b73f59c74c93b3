"""The instants of a schedule: by a cron expression in a time zone, or by an interval.

What holds when clocks are changed is what Debian's cron does. An expression whose minute and hour
both name times of day fires once a day for each of them: a time that does not exist that day, at
the end of the gap; a time that comes twice, at the first. Any other, with a star in front of its
minute or hour or with a field for seconds, follows time as it passes: an hour that comes twice is
fired in twice, and one that does not exist, not at all.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from holdfast.errors import Invalid
from holdfast.model.submitting.schedules import ScheduleTerms

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
CRON_LENGTH_MAX = 256
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_EPOCH = datetime.fromtimestamp(0, UTC)
# What the calendar of Python and of the database still knows, with room behind it.
LAST = datetime(9000, 1, 1, tzinfo=UTC)


def read_zone(name: str) -> ZoneInfo:
    """Find a time zone by its name in the IANA database."""
    return _zone(name)


@lru_cache(maxsize=1000)
def _zone(name: str) -> ZoneInfo:
    remedy = "is no time zone; name one of the IANA database, such as Europe/Berlin or UTC"
    if not _ZONE.fullmatch(name):
        raise Invalid("tz", f"{name[:60]!r} {remedy}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid("tz", f"{name[:60]!r} {remedy}") from error


def expand(cron: str) -> str:
    """Write out a name such as @daily as the expression that it stands for."""
    return ALIASES.get(cron.strip().lower(), cron)


def instants_after(terms: ScheduleTerms, after: datetime) -> Iterator[datetime]:
    """Yield the instants of a schedule after a moment, in order and each once, up to its end."""
    if terms.start_at is not None:
        after = max(after, terms.start_at - timedelta(microseconds=1))
    found = _by_cron(terms, after) if terms.cron is not None else _by_interval(terms, after)
    for instant in found:
        if instant >= LAST or (terms.end_at is not None and instant > terms.end_at):
            return
        yield instant


def next_instant(terms: ScheduleTerms, after: datetime) -> datetime | None:
    """Give the first instant after a moment; None if there is none any more."""
    return next(instants_after(terms, after), None)


def instants_between(terms: ScheduleTerms, first: datetime, last: datetime) -> Iterator[datetime]:
    """Yield the instants of a range, before the start and after the end of the schedule, too."""
    after = first - timedelta(microseconds=1)
    found = _by_cron(terms, after) if terms.cron is not None else _by_interval(terms, after)
    return takewhile(lambda instant: instant <= last, found)


def _by_interval(terms: ScheduleTerms, after: datetime) -> Iterator[datetime]:
    assert terms.every is not None, "a schedule has an expression or an interval"
    start, every = terms.start_at or _EPOCH, timedelta(seconds=terms.every)
    instant = start + ((after - start) // every + 1) * every
    while instant < LAST:
        yield instant
        instant += every


class _Times(CronSim):
    """The library's search, which goes on from a midnight in a gap as from the end of the gap.

    It leaps to the midnight of the next day that matches, whether or not there is one. Left there,
    it would name that midnight as an instant, and count hours from it that miss the first real one.
    """

    def advance_month(self) -> None:
        super().advance_month()
        self._leave_gap()

    def advance_day(self) -> bool:
        moved = super().advance_day()
        self._leave_gap()
        return moved

    def _leave_gap(self) -> None:
        if self.dt.tzinfo is not None:
            self.dt = self.dt.astimezone(UTC).astimezone(self.dt.tzinfo)


def _by_cron(terms: ScheduleTerms, after: datetime) -> Iterator[datetime]:
    assert terms.cron is not None, "a schedule has an expression or an interval"
    zone = read_zone(terms.tz)
    last = after
    try:
        for found in _Times(expand(terms.cron), after.astimezone(zone)):
            instant = found.astimezone(UTC)
            # Two times in one gap both come to its end, and a time that comes twice was there
            # before its second.
            if instant > last:
                last = instant
                yield instant
    except (CronSimError, OverflowError) as error:
        remedy = "write five fields: minute, hour, day of month, month, day of week"
        shown = terms.cron[:CRON_LENGTH_MAX]
        problem = str(error)[:1].lower() + str(error)[1:]
        raise Invalid("cron", f"{shown!r}: {problem}; {remedy}") from error


def due_at(name: str, terms: ScheduleTerms, instant: datetime) -> datetime:
    """Say when an instant is fired: up to `jitter` later, always the same for name and instant."""
    if not terms.jitter:
        return instant
    text = f"{name}\n{(instant - _EPOCH) // timedelta(microseconds=1)}"
    drawn = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
    return instant + timedelta(seconds=drawn * terms.jitter)
