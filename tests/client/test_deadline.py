"""How long is waited: in steps, to an end."""

import math

import pytest

from holdfast.client.deadline import STEP_SECONDS, Deadline


@pytest.mark.parametrize("timeout", [None, math.inf, 3600.0])
def test_a_long_wait_is_waited_in_steps(timeout: float | None) -> None:
    deadline = Deadline(timeout)
    assert deadline.wait_ms() == STEP_SECONDS * 1000
    assert deadline.wait_ms(0.5) == 500
    assert not deadline.is_over
    deadline.check("it runs")


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_what_is_over_is_not_waited_for(timeout: float) -> None:
    deadline = Deadline(timeout)
    assert deadline.wait_ms() == 0
    assert deadline.is_over
    with pytest.raises(TimeoutError, match=f"it runs after {timeout:g} s"):
        deadline.check("it runs")
