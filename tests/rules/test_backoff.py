"""How long a task waits before its next attempt."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.model.submitting.spec import Backoff
from holdfast.rules.retry import backoff_delay

BACKOFF = Backoff(base=1.0, factor=2.0, ceiling=10.0)
JUST_BELOW_ONE = math.nextafter(1.0, 0.0)
EVEN = 0.5  # the jitter that leaves a delay as it is


@pytest.mark.parametrize(
    ("count", "expected"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0)]
)
def test_the_delay_doubles_up_to_the_ceiling(count: int, expected: float) -> None:
    assert backoff_delay(BACKOFF, count, EVEN) == expected
    assert backoff_delay(BACKOFF, count, 0.0) == expected / 2
    assert expected * 1.4999 < backoff_delay(BACKOFF, count, JUST_BELOW_ONE) <= expected * 1.5


def test_the_default_backoff_is_half_a_second_doubling_to_a_minute() -> None:
    delays = [backoff_delay(Backoff(), count, EVEN) for count in (1, 2, 3, 7, 8, 9)]
    assert delays == [0.5, 1.0, 2.0, 32.0, 60.0, 60.0]


@given(
    base=some.floats(0, 86_400),
    factor=some.floats(1, 100),
    count=some.integers(1, 2**31),
    jitter=some.floats(0, 1, exclude_max=True),
    more=some.floats(0, 86_400),
)
def test_the_delay_stays_within_its_bounds_however_large_the_count(
    base: float, factor: float, count: int, jitter: float, more: float
) -> None:
    backoff = Backoff(base, factor, base + more)
    delay = backoff_delay(backoff, count, jitter)
    assert base * 0.5 <= delay <= backoff.ceiling * 1.5
    # Each wait is at least as long as the one before, with the same luck.
    assert delay <= backoff_delay(backoff, count + 1, jitter)
