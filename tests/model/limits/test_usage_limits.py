"""Rates as people write them."""

import pytest

from holdfast.errors import Invalid
from holdfast.model.limits.usage_limits import parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", (10.0, 1.0)),
        ("100/minute", (100.0, 60.0)),
        (" 5 / 10 s ", (5.0, 10.0)),
        ("0.5/h", (0.5, 3600.0)),
        ("1000/DAY", (1000.0, 86400.0)),
        ("3/1.5min", (3.0, 90.0)),
        ("10.000000/60.000000s", (10.0, 60.0)),
    ],
)
def test_a_rate_is_so_many_in_a_time(text: str, rate: tuple[float, float]) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["", "10", "10/", "/s", "ten/s", "10/0s", "10/week", "-1/s", "1e9/s"]
)
def test_what_is_no_rate_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(Invalid, match=r"rate: .*write 10/s, 100/minute or 5/10s"):
        parse_rate(text)
