"""How long to wait before asking a server again: longer each time, and never in step with others.

Thousands that were refused at one moment would come back at one moment; so a random part of every
pause is left out or, where the server has said how long to wait, put on top.
"""

import random

RETRY_AFTER_SECONDS_MAX = 60.0


class Pauses:
    """The pauses between one call and its repeats."""

    def __init__(self, first_seconds: float, seconds_max: float) -> None:
        self._first_seconds = first_seconds
        self._seconds_max = seconds_max
        self._seconds = first_seconds

    def next(self, error: Exception | None = None) -> float:
        """Give the next pause, in seconds: as long as an error asks for, at least."""
        pause = spread(self._seconds)
        self._seconds = min(self._seconds * 2, self._seconds_max)
        asked = getattr(error, "retry_after", None)
        return pause if asked is None else max(pause, float(asked) * random.uniform(1.0, 1.5))

    def reset(self) -> None:
        """Begin with the shortest again, after a success."""
        self._seconds = self._first_seconds


def spread(seconds: float) -> float:
    """Leave out a random part of a pause, half of it at most."""
    return seconds * random.uniform(0.5, 1.0)


def read_retry_after(text: str | None) -> float | None:
    """Read the header Retry-After; a date, which no server of ours sends, is passed over."""
    if text is None or not text.isascii() or not text.isdigit():
        return None
    return min(float(text), RETRY_AFTER_SECONDS_MAX)
