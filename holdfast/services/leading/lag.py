"""Notices when this process is late itself: what it found missing meanwhile condemns nobody."""

import asyncio

LAG_SECONDS = 0.5
LATE_SECONDS = 1.0


class LagWatch:
    """How late the event loop has been, while `watch` runs."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._looked_at = self._clock()
        self._late_at = float("-inf")

    async def watch(self) -> None:
        """Look at the clock now and then, until cancelled."""
        while True:
            self._looked_at = self._clock()
            await asyncio.sleep(LAG_SECONDS)
            if self._is_late():
                self._late_at = self._clock()

    def was_late_since(self, instant: float) -> bool:
        """Tell whether this process has been late since then, or is so this moment."""
        return self._is_late() or self._late_at >= instant

    def _is_late(self) -> bool:
        return self._clock() - self._looked_at > LAG_SECONDS + LATE_SECONDS
