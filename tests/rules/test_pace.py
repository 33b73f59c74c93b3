"""A pace is kept in steps: never faster, and hardly slower."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.rules.pace import STEP_SECONDS, next_step
from holdfast.rules.submitting.submission import START_RATE_MAX, START_RATE_MIN


@pytest.mark.parametrize(
    ("rate", "tasks", "seconds"),
    [(10.0, 5, 0.5), (1.0, 1, 1.0), (3.0, 1, 1 / 3), (1 / 60, 1, 60.0), (10_000.0, 5000, 0.5)],
)
def test_a_step_is_half_a_second_or_one_task(rate: float, tasks: int, seconds: float) -> None:
    step = next_step(rate, 5000)
    assert step.tasks_max == tasks
    assert step.pause.total_seconds() == pytest.approx(seconds, abs=1e-6)


@given(some.floats(START_RATE_MIN, START_RATE_MAX), some.integers(1, 5000))
def test_steps_keep_the_rate(rate: float, most: int) -> None:
    step = next_step(rate, most)
    assert 1 <= step.tasks_max <= most
    assert step.tasks_max / rate == pytest.approx(step.pause.total_seconds(), abs=1e-6)
    assert step.tasks_max == 1 or step.pause.total_seconds() <= STEP_SECONDS + 1e-6
