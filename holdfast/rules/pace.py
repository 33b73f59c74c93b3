"""How fast the tasks of a job come to stand in line, if they shall not all do so at once."""

from datetime import timedelta
from typing import NamedTuple

# Small enough that a second's work does not come all at once, and a step is worth a transaction.
STEP_SECONDS = 0.5


class Step(NamedTuple):
    """How many tasks may stand in line now, and for how long no more of them."""

    tasks_max: int
    pause: timedelta


def next_step(start_rate: float, tasks_max: int) -> Step:
    """Take as many tasks as a short while is worth, one at least, and wait until they are due."""
    count = max(1, min(tasks_max, int(start_rate * STEP_SECONDS)))
    return Step(count, timedelta(seconds=count / start_rate))
