"""How long most have waited, told from how many waited up to each of a row of bounds."""

from collections.abc import Sequence
from itertools import pairwise

# Charts are kept as counts between these: they cannot change without the rows that are stored.
BOUNDS_SECONDS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200,
)  # fmt: skip
RANGES = len(BOUNDS_SECONDS) + 1


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Estimate the seconds within which this share fell; counts are per range, the last open.

    Within a range they are taken to lie evenly; beyond the last bound nothing is known but that.
    """
    assert len(counts) == RANGES, "one count per range, and one for what lies beyond"
    wanted = sum(counts) * share
    if not wanted:
        return None
    for (start, end), count in zip(pairwise((0.0, *BOUNDS_SECONDS)), counts, strict=False):
        if count and wanted <= count:
            return start + (end - start) * wanted / count
        wanted -= count
    return float(BOUNDS_SECONDS[-1])


def quantile_ms(counts: Sequence[int], share: float) -> float | None:
    """Estimate the milliseconds within which this share fell."""
    seconds = quantile(counts, share)
    return None if seconds is None else round(seconds * 1000, 1)
