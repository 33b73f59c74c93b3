"""Ring a queue at the moment when a rate allows more of it: nothing becomes ready then."""

import asyncio

from holdfast.services.waking.doorbell import Bell, Doorbells

# Sooner, a claim would find a single token; and whoever is rung too late is rung by a chore.
SECONDS_MIN = 0.01
SECONDS_MAX = 60.0
EVERYBODY = 1_000_000


class Openings:
    """When to look again in which queue; one who looks and finds nothing is told the next time."""

    def __init__(self, doorbells: Doorbells) -> None:
        self._doorbells = doorbells
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # Set when a claim has put tasks behind a limit: a slot may have been freed meanwhile.
        self.gated = asyncio.Event()

    def note(self, queue: str, seconds: float) -> None:
        """Ring for a queue in so many seconds, unless that is done sooner anyway."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + min(max(seconds, SECONDS_MIN), SECONDS_MAX)
        known = self._timers.get(queue)
        if known is not None:
            if known.when() <= due_at:
                return
            known.cancel()
        self._timers[queue] = loop.call_at(due_at, self._open, queue)

    def close(self) -> None:
        """Ring no more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _open(self, queue: str) -> None:
        del self._timers[queue]
        self._doorbells.ring(Bell("queue", queue), worth=EVERYBODY)
