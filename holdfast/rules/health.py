"""When a called worker is well, doubted, or dead: decided here and nowhere else."""

from typing import Literal

DEAD_AFTER_FAILURES = 3
Health = Literal["healthy", "failing", "dead"]


def judge(consecutive_failures: int) -> Health:
    """Judge a worker by the heartbeats it has failed in a row."""
    if consecutive_failures >= DEAD_AFTER_FAILURES:
        return "dead"
    return "failing" if consecutive_failures else "healthy"
