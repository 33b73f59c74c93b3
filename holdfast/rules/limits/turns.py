"""Whose turn it is at a rate, for code that asks in the middle of its work.

Whoever asks is given a time there and then, after that of all who asked before him. What he takes
is gone from that time on, whether he comes or not: so nobody has to be woken or watched.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.model.limits.usage_limits import WINDOW_MARGIN, UsageLimit

# So that what adds up to nothing but rounding makes nobody wait.
_ROUNDING = 1e-9


class Turn(NamedTuple):
    """When it may go on; and what a token bucket holds then, less than nothing if that is later."""

    at: datetime
    tokens: float | None = None


def count_at_most(limit: UsageLimit) -> float:
    """Say how much can be taken at once, however long one waits."""
    return limit.most if limit.burst is None else limit.burst


def take_tokens(
    limit: UsageLimit,
    tokens: float | None,
    filled_at: datetime | None,
    *,
    count: float,
    now: datetime,
) -> Turn | None:
    """Take from a token bucket; None if there will never be so much."""
    assert limit.period is not None, "a rate has a period"
    burst, pace = limit.burst or 1.0, limit.most / limit.period
    if count > burst:
        return None
    if tokens is None or filled_at is None:
        tokens, filled_at = burst, now
    tokens += max((now - filled_at).total_seconds(), 0.0) * pace
    left = min(tokens, burst) - count
    if left >= -_ROUNDING:
        return Turn(now, left)
    if pace <= 0.0:
        return None
    return Turn(now + timedelta(seconds=-left / pace), left)


def take_from_window(
    limit: UsageLimit, slices: Sequence[tuple[datetime, float]], *, count: float, now: datetime
) -> Turn | None:
    """Take from a sliding window, of which it is known what was spent in each slice; or None."""
    assert limit.period is not None, "a rate has a period"
    if count > limit.most:
        return None
    span = timedelta(seconds=limit.period * WINDOW_MARGIN)
    latest_first = sorted(slices, reverse=True)
    start = max([now, *(at for at, _ in latest_first[:1])])
    left = limit.most - count + _ROUNDING
    for at, spent in latest_first:
        left -= spent
        if at + span <= start:
            break
        if left < 0.0:
            return Turn(at + span)
    return Turn(start)
