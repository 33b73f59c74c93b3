"""What signals and waits may look like."""

import math
from datetime import timedelta

import pytest

from holdfast.errors import Invalid
from holdfast.rules.signals import check_signal_name, check_wait_number, read_timeout


@pytest.mark.parametrize("name", ["", "x" * 201, "a\x00"])
def test_a_name_is_a_short_text(name: str) -> None:
    check_signal_name("approval of 4182/7")
    with pytest.raises(Invalid, match=r"^name: "):
        check_signal_name(name)


@pytest.mark.parametrize("number", [0, 1001])
def test_a_function_waits_a_thousand_times_for_one_name(number: int) -> None:
    check_wait_number(1)
    check_wait_number(1000)
    with pytest.raises(Invalid, match="use another name"):
        check_wait_number(number)


@pytest.mark.parametrize("seconds", [-0.1, math.nan, math.inf, 1e10])
def test_a_timeout_is_a_while_or_none(seconds: float) -> None:
    assert read_timeout(None) is None
    assert read_timeout(0.5) == timedelta(milliseconds=500)
    with pytest.raises(Invalid, match=r"^timeout: .*; leave it out to wait without end"):
        read_timeout(seconds)
