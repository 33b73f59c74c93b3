"""How long most have waited, told from counts per range."""

from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rules.quantiles import BOUNDS_SECONDS, RANGES, quantile


def counts_of(waits: list[float]) -> list[int]:
    """Count waits per range."""
    counts = [0] * RANGES
    for wait in waits:
        counts[bisect_left(BOUNDS_SECONDS, wait)] += 1
    return counts


def test_of_nothing_nothing_is_known() -> None:
    assert quantile([0] * RANGES, 0.5) is None


@pytest.mark.parametrize(
    ("waits", "share", "seconds"),
    [
        ([0.005], 1.0, 0.005),
        ([0.003] * 10, 0.5, 0.0025),
        ([2.0] * 4, 0.5, 1.75),
        ([0.001] * 90 + [100.0] * 10, 0.95, 180.0),
        ([10_000.0] * 3, 0.5, 7200.0),
        ([0.001] + [10_000.0] * 3, 0.95, 7200.0),
    ],
)
def test_within_a_range_waits_are_taken_to_lie_evenly(
    waits: list[float], share: float, seconds: float
) -> None:
    assert quantile(counts_of(waits), share) == pytest.approx(seconds)


@settings(max_examples=50)
@given(st.lists(st.floats(0, 7200), min_size=1, max_size=40), st.sampled_from([0.5, 0.95]))
def test_an_estimate_lies_in_the_range_of_the_true_value(waits: list[float], share: float) -> None:
    ordered = sorted(waits)
    true = next(wait for index, wait in enumerate(ordered, 1) if index >= len(waits) * share)
    found = quantile(counts_of(waits), share)
    assert found is not None
    place = bisect_left(BOUNDS_SECONDS, true)
    start = BOUNDS_SECONDS[place - 1] if place else 0.0
    assert start <= found <= BOUNDS_SECONDS[place] * (1 + 1e-9)
