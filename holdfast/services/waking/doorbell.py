"""Who waits in this server for something to happen, and how they are woken.

A bell has a name (a queue, a worker, a job). Ringing it wakes as many of those that wait as the
news is worth: ten new tasks wake the first pollers that together asked for ten. A ring that nobody
hears is forgotten; whoever waits looks again by itself, so a lost ring costs time, never a task.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple


class Bell(NamedTuple):
    """What one can wait for."""

    kind: str
    name: str


class Listener:
    """One who listens: what rings from now on is heard, even before `wait` is called."""

    __slots__ = ("_woken", "appetite", "was_rung")

    def __init__(self, appetite: int) -> None:
        self.appetite = appetite
        self.was_rung = False
        self._woken = asyncio.Event()

    async def wait(self, seconds_max: float) -> bool:
        """Wait for a ring; False when the time is over or the server stops."""
        if seconds_max <= 0:
            return False
        try:
            # Not wait_for: of a cancel that meets a ring it would keep the ring alone.
            async with asyncio.timeout(seconds_max):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        heard, self.was_rung = self.was_rung, False
        return heard

    def wake(self, *, rung: bool) -> None:
        """Wake it, with news or without."""
        self.was_rung = self.was_rung or rung
        self._woken.set()


class Doorbells:
    """Everybody who waits in this server."""

    def __init__(self) -> None:
        self._listening: dict[Bell, dict[Listener, None]] = {}
        self.is_closed = False

    @contextmanager
    def listen(self, bells: Sequence[Bell], appetite: int = 1) -> Iterator[Listener]:
        """Listen for the time of a block: look first and then wait, and no ring falls between."""
        listener = Listener(appetite)
        different = dict.fromkeys(bells)
        for bell in different:
            self._listening.setdefault(bell, {})[listener] = None
        try:
            yield listener
        finally:
            for bell in different:
                self._leave(bell, listener)
            if listener.was_rung:
                # It heard the news and left without looking: the next one should.
                for bell in different:
                    self.ring(bell)

    def ring(self, bell: Bell, worth: int = 1) -> int:
        """Wake those that listen, in the order they came, until the news is used up."""
        for listener in list(self._listening.get(bell, ())):
            if worth <= 0:
                break
            if not listener.was_rung:
                listener.wake(rung=True)
                worth -= listener.appetite
        return max(worth, 0)

    def names(self, kind: str) -> list[str]:
        """List what is listened for."""
        return [bell.name for bell in self._listening if bell.kind == kind]

    def close(self) -> None:
        """Send everybody home; from now on nobody should wait."""
        self.is_closed = True
        for listeners in self._listening.values():
            for listener in listeners:
                listener.wake(rung=False)

    def _leave(self, bell: Bell, listener: Listener) -> None:
        listeners = self._listening[bell]
        del listeners[listener]
        if not listeners:
            del self._listening[bell]
