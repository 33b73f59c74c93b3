"""Moments and spans on the command line: a time, how long ago it was, how long to wait."""

import re
from datetime import UTC, datetime, timedelta

from holdfast.errors import Invalid

_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])")
_SPAN = re.compile(rf"(?:{_AGE.pattern})+")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(text: str | None, option: str, *, now: datetime | None = None) -> datetime | None:
    """Read 10m, 2h or 1.5d as so long ago, anything else as a time: without a zone, of here."""
    if text is None:
        return None
    try:
        age = _AGE.fullmatch(text.strip())
        if age is not None:
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[age[2]]: float(age[1])})
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        problem = f"{text[:50]!r} is not a time; write 10m, 2h, 1d, or 2026-11-16T12:00"
        raise Invalid(option, problem) from error


def parse_time(text: str | None, option: str) -> float | None:
    """Read a time, without a zone that of here, as seconds since 1970."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        problem = f"{text[:50]!r} is not a time; write it like 2026-11-18T09:00, or with +01:00"
        raise Invalid(option, problem) from error


def parse_span(text: str | None, option: str) -> float | None:
    """Read a span such as 90s, 5m or 1h30m, as seconds; a bare number has no unit."""
    if text is None:
        return None
    if not _SPAN.fullmatch(text.strip()):
        raise Invalid(option, f"{text[:50]!r} is not a span; write 90s, 5m, 1h30m or 2d")
    parts = _AGE.findall(text)
    try:
        spans = [timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts]
        return sum(spans, timedelta()).total_seconds()
    except OverflowError as error:
        raise Invalid(option, f"{text[:50]!r} is too long; give a year at most") from error
