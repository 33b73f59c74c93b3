"""How long somebody waits for something at the server, which no one request may wait for."""

import math
import time

STEP_SECONDS = 10.0  # less than what a server lets wait, and than what a read has


class Deadline:
    """The moment at which somebody stops waiting, if ever."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = math.inf if timeout is None else timeout
        self._ends_at = time.monotonic() + self._timeout

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self._ends_at

    def wait_ms(self, seconds_max: float | None = None) -> int:
        """Say how long the server should wait this time."""
        left = self._ends_at - time.monotonic()
        step = STEP_SECONDS if seconds_max is None else seconds_max
        return int(max(min(left, step), 0.0) * 1000)

    def check(self, standing: str, why: str | None = None) -> None:
        """Raise TimeoutError, with how things stand and why, if it has passed."""
        if self.is_over:
            reason = "" if why is None else f": {why}"
            raise TimeoutError(f"{standing} after {self._timeout:g} s{reason}")
