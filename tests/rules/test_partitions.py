"""How large the next partition is."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.rules.partitions import SPAN_MAX, SPAN_MIN, next_span


@pytest.mark.parametrize(
    ("jobs_last_day", "last_span", "in_a_hurry", "expected"),
    [
        (0, 10_000, False, SPAN_MIN),
        (50_000, 10_000, False, 50_000),
        (50_000_000, 10_000, False, SPAN_MAX),
        (0, 10_000, True, 40_000),
        (500_000, 10_000, True, 40_000),
        (0, SPAN_MAX, True, SPAN_MAX),
        (0, 1, True, SPAN_MIN),
    ],
)
def test_a_partition_holds_about_a_day_and_grows_in_a_hurry(
    jobs_last_day: int, last_span: int, in_a_hurry: bool, expected: int
) -> None:
    assert next_span(jobs_last_day, last_span, in_a_hurry=in_a_hurry) == expected


@given(some.integers(min_value=0), some.integers(min_value=1), some.booleans())
def test_a_partition_is_never_tiny_and_never_huge(jobs: int, last: int, in_a_hurry: bool) -> None:
    assert SPAN_MIN <= next_span(jobs, last, in_a_hurry=in_a_hurry) <= SPAN_MAX
