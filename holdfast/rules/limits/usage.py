"""Limits of use: checked and completed before they are stored; what is left of their buckets."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from holdfast.errors import Invalid
from holdfast.model.limits.usage_limits import CONCURRENCY, KINDS, SCOPES, WINDOW_MARGIN, UsageLimit
from holdfast.rules.submitting.submission import check_queue, check_text

TEXT_MAX = 256
MOST_MAX = 1e9
PERIOD_MIN = 0.001
PERIOD_MAX = 366 * 86400.0
# An attempt names the buckets whose slots it holds, and has room for so many.
HELD_MAX = 4
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}", re.ASCII)


def check_limit_name(name: str) -> None:
    """Refuse what no limit can be called."""
    if not _NAME.fullmatch(name):
        problem = f"{name[:130]!r} is none; use letters, digits and . _ @ -, 128 at most"
        raise Invalid("name", problem)


def complete_limit(limit: UsageLimit) -> UsageLimit:
    """Check a limit, and give a token bucket its burst: a second's worth, and at least one."""
    _check_words(limit)
    _check_amounts(limit)
    if limit.kind == "bucket" and limit.burst is None:
        assert limit.period is not None, "a rate has a period"
        limit = msgspec.structs.replace(limit, burst=max(limit.most / limit.period, 1.0))
    return limit


def check_change(before: UsageLimit, after: UsageLimit) -> None:
    """Refuse to make another thing of a limit: its buckets would mean nothing any more."""
    for field in ("scope", "kind"):
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            problem = f"is {old!r}, and stays so; delete the limit first, or give another name"
            raise Invalid(field, problem)


def is_about_others(before: UsageLimit, after: UsageLimit) -> bool:
    """Tell whether a change may have tasks without a limit that had one."""
    fields = ("only_for", "in_queue", "in_type")
    return any(getattr(before, field) != getattr(after, field) for field in fields)


def check_held(limit: UsageLimit, others: Iterable[UsageLimit]) -> None:
    """Refuse a limit by which a task could come to hold slots of more than an attempt can name."""
    if limit.kind != CONCURRENCY:
        return
    mine = _conditions(limit)
    # Of those under the same conditions all hold at once; of different values, one at most.
    groups: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {}
    for other in others:
        theirs = _conditions(other)
        if other.kind != CONCURRENCY or any(
            mine.get(what, value) != value for what, value in theirs.items()
        ):
            continue
        groups.setdefault(tuple(theirs), Counter())[tuple(theirs.values())] += 1
    count = 1 + sum(max(counted.values()) for counted in groups.values())
    if count > HELD_MAX:
        problem = (
            f"could be the {count}th limit of slots for one task, and {HELD_MAX} is the most; "
            "delete one, or restrict this one with only_for, in_queue or in_type"
        )
        raise Invalid("limits", problem)


def _conditions(limit: UsageLimit) -> dict[str, str]:
    """List what a task has to be of, by kind and in a fixed order."""
    named = {"queue": limit.in_queue, "type": limit.in_type, "owner": None, "key": None}
    if limit.scope in named and limit.only_for is not None:
        named[limit.scope] = limit.only_for
    if limit.scope == "name":
        named["name"] = ""
    return {what: value for what, value in named.items() if value is not None}


def _check_words(limit: UsageLimit) -> None:
    for field, value, known in (("scope", limit.scope, SCOPES), ("kind", limit.kind, KINDS)):
        if value not in known:
            raise Invalid(field, f"{value!r} is unknown; use one of {', '.join(known)}")
    for field in ("only_for", "in_queue", "in_type"):
        text = getattr(limit, field)
        if text is None:
            continue
        if not text:
            raise Invalid(field, "is empty; leave it out for all of them")
        if limit.scope == "name":
            problem = "goes with tasks; a limit of scope 'name' is for code that asks by its name"
            raise Invalid(field, problem)
        check_text(field, text, TEXT_MAX)
    if limit.in_queue is not None:
        check_queue(limit.in_queue)
    for field, scope in (("in_queue", "queue"), ("in_type", "type")):
        if limit.scope == scope and getattr(limit, field) is not None:
            raise Invalid(field, f"says again what scope {scope!r} is about; use only_for")


def _check_amounts(limit: UsageLimit) -> None:
    _check_number("most", limit.most, least=0.0, most=MOST_MAX)
    if limit.kind == CONCURRENCY:
        if limit.most != math.floor(limit.most):
            raise Invalid("most", f"is {limit.most:g}; slots are whole")
        for field in ("period", "burst"):
            if getattr(limit, field) is not None:
                problem = "goes with a rate; use kind 'bucket' or 'window', or leave it out"
                raise Invalid(field, problem)
        return
    if limit.period is None:
        raise Invalid("period", f"is missing: {limit.most:g} in how many seconds?")
    _check_number("period", limit.period, least=PERIOD_MIN, most=PERIOD_MAX)
    if limit.kind == "window" and limit.burst is not None:
        raise Invalid("burst", "goes with a token bucket; a window allows `most` at once")
    if limit.burst is not None:
        _check_number("burst", limit.burst, least=1.0, most=MOST_MAX)


def _check_number(field: str, value: float, *, least: float, most: float) -> None:
    if not math.isfinite(value) or not least <= value <= most:
        raise Invalid(field, f"is {value:g}; give {least:g} to {most:.10g}")


class Room(NamedTuple):
    """How much a bucket has left, and when there will be enough for the next, if that is known."""

    free: float
    next_at: datetime | None = None


def find_slots(limit: UsageLimit, held: int) -> Room:
    """Say how many slots are free, none if more are held than the limit allows."""
    return Room(max(limit.most - held, 0.0))


def find_tokens(
    limit: UsageLimit,
    tokens: float | None,
    filled_at: datetime | None,
    *,
    now: datetime,
    wanted: float = 1.0,
) -> Room:
    """Say how many tokens are in a bucket now; one that nobody has taken from is full."""
    assert limit.period is not None, "a rate has a period"
    burst = limit.burst or 1.0
    if tokens is None or filled_at is None:
        return Room(burst)
    pace = limit.most / limit.period
    free = min(tokens + max((now - filled_at).total_seconds(), 0.0) * pace, burst)
    if free >= wanted:
        return Room(free)
    if pace <= 0.0 or wanted > burst:
        return Room(max(free, 0.0))
    return Room(max(free, 0.0), now + timedelta(seconds=(wanted - free) / pace))


def find_left(limit: UsageLimit, spent: float, oldest: datetime | None) -> Room:
    """Say how many more may start in a window, and when the oldest of them leaves it."""
    assert limit.period is not None, "a rate has a period"
    free = max(limit.most - spent, 0.0)
    if free >= 1.0 or oldest is None:
        return Room(free)
    return Room(free, oldest + timedelta(seconds=limit.period * WINDOW_MARGIN))


class BucketState(NamedTuple):
    """What is known of a bucket: slots held, tokens as last written, what a window has spent."""

    held: int = 0
    tokens: float | None = None
    filled_at: datetime | None = None
    spent: float = 0.0
    oldest: datetime | None = None


def find_room(limit: UsageLimit, state: BucketState, now: datetime) -> Room:
    """Say what is left of a bucket, by the kind of its limit."""
    if limit.kind == CONCURRENCY:
        return find_slots(limit, state.held)
    if limit.kind == "window":
        return find_left(limit, state.spent, state.oldest)
    return find_tokens(limit, state.tokens, state.filled_at, now=now)


def expect_turn(
    limit: UsageLimit, state: BucketState, *, wanted: float, now: datetime
) -> datetime | None:
    """Say when a rate will have let so much through, to those ahead as well; None if nobody knows.

    Of a window this is an estimate: each time that it is full, a whole period passes.
    """
    if limit.kind == CONCURRENCY or limit.period is None or limit.most <= 0.0:
        return None
    room = find_room(limit, state, now)
    if wanted <= room.free:
        return now
    if limit.kind == "bucket":
        tokens = (limit.burst or 1.0) if state.tokens is None else state.tokens
        if state.filled_at is not None:
            tokens += max((now - state.filled_at).total_seconds(), 0.0) * limit.most / limit.period
        left = min(tokens, limit.burst or 1.0)
        return now + timedelta(seconds=(wanted - left) * limit.period / limit.most)
    rounds = math.ceil((wanted - room.free) / limit.most) - 1
    opens_at = room.next_at or now
    return opens_at + rounds * timedelta(seconds=limit.period * WINDOW_MARGIN)
