"""Limits of use: how much of a queue, type, owner or key may run at once, or start in a time."""

import re
from datetime import datetime
from typing import Literal, get_args

import msgspec

from holdfast.errors import Invalid

Scope = Literal["queue", "type", "owner", "key", "name"]
LimitKind = Literal["concurrency", "bucket", "window"]
SCOPES: tuple[str, ...] = get_args(Scope)
KINDS: tuple[str, ...] = get_args(LimitKind)
CONCURRENCY: LimitKind = "concurrency"
# What a window lets start is summed up by hundredths of its period. Each counts
# as long as any part of it is within.
WINDOW_MARGIN = 1.01

_RATE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*/\s*(\d{1,9}(?:\.\d{1,9})?)?\s*([a-z]+)")
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}


class UsageLimit(msgspec.Struct, frozen=True, kw_only=True):
    """What a limit says: `most` slots at once or, with a period in seconds, starts within it.

    There is a bucket of it for each queue, type, owner or key, or `only_for` one of them. Of scope
    `name` there is one bucket, for code that asks by the limit's name.
    """

    scope: Scope
    kind: LimitKind
    most: float
    period: float | None = None
    # What a token bucket holds when it is full.
    burst: float | None = None
    only_for: str | None = None
    in_queue: str | None = None
    in_type: str | None = None


class StoredLimit(msgspec.Struct, frozen=True):
    """A limit as it stands in the database."""

    limit_id: int
    name: str
    limit: UsageLimit
    updated_at: datetime
    updated_by: str


def parse_rate(text: str, field: str = "rate") -> tuple[float, float]:
    """Read how many in how many seconds: 10/s, 100/minute, 5/10s."""
    found = _RATE.fullmatch(text.strip().lower())
    if found is None or found[3] not in _SECONDS:
        raise Invalid(field, f"{text[:50]!r} is not a rate; write 10/s, 100/minute or 5/10s")
    seconds = float(found[2] or 1) * _SECONDS[found[3]]
    if not seconds:
        raise Invalid(field, f"{text[:50]!r} is in no time; write 10/s, 100/minute or 5/10s")
    return float(found[1]), seconds
