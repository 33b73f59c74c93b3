"""Turns at a rate: never more than it says, in the order of asking, and no later than need be."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.limits.usage_limits import WINDOW_MARGIN, UsageLimit
from holdfast.rules.limits.turns import count_at_most, take_from_window, take_tokens

START = datetime(2027, 1, 1, tzinfo=UTC)
BUCKET = UsageLimit(scope="name", kind="bucket", most=10, period=2, burst=4)
WINDOW = UsageLimit(scope="name", kind="window", most=4, period=2)
# So long after the one before somebody asks, and for so much.
ASKED = st.lists(
    st.tuples(st.floats(0, 3, allow_nan=False), st.integers(1, 4)), min_size=1, max_size=60
)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@given(asked=ASKED)
def test_a_token_bucket_lets_no_more_through_than_its_burst_and_its_pace(
    asked: list[tuple[float, int]],
) -> None:
    tokens, filled_at, now = None, None, START
    passed: list[tuple[datetime, int]] = []
    for seconds, count in asked:
        now += timedelta(seconds=seconds)
        turn = take_tokens(BUCKET, tokens, filled_at, count=count, now=now)
        assert turn is not None
        assert turn.at >= now
        assert not passed or turn.at >= passed[-1][0]
        tokens, filled_at = turn.tokens, now
        passed.append((turn.at, count))
    for first in range(len(passed)):
        total = 0
        for at, count in passed[first:]:
            total += count
            seconds = (at - passed[first][0]).total_seconds()
            assert total <= 4 + seconds * 5 + 1e-4


@given(asked=ASKED)
def test_a_window_never_lets_more_through_within_its_period(
    asked: list[tuple[float, int]],
) -> None:
    now = START
    slices: list[tuple[datetime, float]] = []
    passed: list[tuple[datetime, int]] = []
    for seconds, count in asked:
        now += timedelta(seconds=seconds)
        turn = take_from_window(WINDOW, slices, count=count, now=now)
        assert turn is not None
        assert turn.at >= now
        assert not passed or turn.at >= passed[-1][0] - timedelta(seconds=0.02)
        passed.append((turn.at, count))
        # As it is written down: by hundredths of the period, from the beginning of one on.
        steps = (turn.at - START) // timedelta(seconds=0.02)
        slices.append((START + steps * timedelta(seconds=0.02), float(count)))
    for at, _ in passed:
        within = [count for other, count in passed if at <= other < at + timedelta(seconds=2)]
        assert sum(within) <= 4


def test_nobody_waits_for_what_is_there() -> None:
    for count in (1, 4):
        turn = take_tokens(BUCKET, None, None, count=count, now=START)
        assert turn is not None
        assert (turn.at, turn.tokens) == (START, 4 - count)
        assert take_from_window(WINDOW, [], count=count, now=START) == (START, None)


def test_who_asks_for_more_than_is_there_waits_exactly_as_long_as_that_takes() -> None:
    turn = take_tokens(BUCKET, 1.0, START, count=4, now=after(0.2))
    assert turn is not None
    assert turn.at == after(0.6)
    assert turn.tokens == pytest.approx(-2.0)
    found = take_from_window(WINDOW, [(START, 3.0), (after(1), 1.0)], count=1, now=after(1.5))
    assert found is not None
    assert found.at == START + timedelta(seconds=2 * WINDOW_MARGIN)


def test_what_never_comes_is_not_waited_for() -> None:
    closed = UsageLimit(scope="name", kind="bucket", most=0, period=1, burst=1)
    assert take_tokens(closed, 0.0, START, count=1, now=after(9)) is None
    assert take_tokens(BUCKET, None, None, count=5, now=START) is None
    assert take_from_window(WINDOW, [], count=5, now=START) is None
    assert (count_at_most(BUCKET), count_at_most(WINDOW)) == (4, 4)
