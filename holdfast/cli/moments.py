"""Moments on the command line: a time, or how long ago it was."""

import re
from datetime import UTC, datetime, timedelta

from holdfast.errors import Invalid

_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])")
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
