"""Something that this process needs is away: logged when it begins, now and then, and at its end.

An outage makes everything fail that needs what is away, many times a second. Who finds out first
notes it here; the errors that follow from it carry a mark, and are not logged once more.
"""

import logging
import threading
import time
from collections.abc import Callable

from holdfast.errors import Unavailable

log = logging.getLogger("holdfast.outage")
LOG_SECONDS = 30.0
# What can be answered without it is no sign that it is back, as long as other things fail.
SETTLE_SECONDS = 3.0


class Outage:
    """Whether one thing is away, and since when; whoever uses it says how that went.

    Any thread may call any method.
    """

    def __init__(self, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self._clock = clock
        self._began_at: float | None = None
        self._failed_at = 0.0
        self._logged_at: float | None = None
        self._is_announced = False
        # A worker's threads find out at the same moment that it is over: one of them says so.
        self._ending = threading.Lock()

    def note_failure(self, error: Unavailable, reason: str) -> None:
        """Note that it cannot be used; says so at first, and again while that lasts."""
        error.is_logged = True
        now = self._failed_at = self._clock()
        began_at = self._began_at
        if began_at is None:
            began_at = self._began_at = now
        # Also where it comes and goes: no more than so many lines.
        if self._logged_at is not None and now - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = now
        lasting = f" for {now - began_at:.0f} s now" if self._is_announced else ""
        log.warning("%s is away%s: %s", self.what, lasting, reason)
        self._is_announced = True

    def note_success(self) -> None:
        """Note that it could be used, and say so if it was away until now."""
        if self._began_at is None or self._clock() - self._failed_at < SETTLE_SECONDS:
            return
        with self._ending:
            began_at, self._began_at = self._began_at, None
            was_announced, self._is_announced = self._is_announced, False
        if began_at is not None and was_announced:
            log.info("%s is back after %.0f s", self.what, self._failed_at - began_at)
