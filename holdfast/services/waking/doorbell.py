"""Who waits in this server for something to happen, and how they are woken.

A bell has a name (a queue, a worker, a job). Ringing it wakes as many of those that wait as the
news is worth: ten new tasks wake the first pollers that together asked for ten. A ring that nobody
hears is forgotten; whoever waits looks again by itself, so a lost ring costs time, never a task.

Whoever has the news may also fulfil a wish at once, instead of ringing: it borrows the listener.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol


class Bell(NamedTuple):
    """What one can wait for."""

    kind: str
    name: str


class Wish(Protocol):
    """What somebody who waits asks for, and whether he still may have it."""

    @property
    def request(self) -> Any:
        """Tell what is asked for."""

    @property
    def is_over(self) -> bool:
        """Whether nothing may be given any more."""


class Listener:
    """One who listens: what rings from now on is heard, even before `wait` is called.

    While it is lent, it waits for its answer, however long it meant to.
    """

    __slots__ = (
        "_is_lent",
        "_is_waiting",
        "_woken",
        "appetite",
        "given",
        "lent_at",
        "was_rung",
        "wish",
    )

    def __init__(self, appetite: int, wish: Wish | None = None) -> None:
        self.appetite = appetite
        self.wish = wish
        self.was_rung = False
        self.given: list[Any] | None = None
        # By the loop's clock. What is given was leased after this, perhaps long before it is read.
        self.lent_at = 0.0
        self._woken = asyncio.Event()
        self._is_waiting = False
        self._is_lent = False

    @property
    def request(self) -> Any:
        """Tell what it wishes for."""
        assert self.wish is not None
        return self.wish.request

    @property
    def can_be_lent(self) -> bool:
        """Whether it sits there with a wish and has heard nothing yet."""
        return (
            self._is_waiting
            and not (self.was_rung or self._is_lent or self.given)
            and self.wish is not None
            and not self.wish.is_over
        )

    @property
    def can_be_rung(self) -> bool:
        """Whether a ring would be news to it: who is lent gets an answer, or a ring, anyway."""
        return not (self.was_rung or self._is_lent or self.given)

    def give(self, claims: list[Any]) -> None:
        """Fulfil its wish."""
        assert self._is_lent
        self.given = claims

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Keep it from going away for the time of a block; without a gift it looks by itself."""
        self._is_lent = True
        self.lent_at = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._is_lent = False
            self.wake(rung=self.given is None)

    async def wait(self, seconds_max: float) -> bool:
        """Wait for a ring; False if the time is over, the server stops, or a wish is fulfilled."""
        if seconds_max <= 0:
            return False
        self._is_waiting = True
        try:
            # Not wait_for: of a cancel that meets a ring it would keep the ring alone.
            async with asyncio.timeout(seconds_max):
                await self._woken.wait()
        except TimeoutError:
            if not self._is_lent:
                return False
        finally:
            self._is_waiting = False
        while self._is_lent:
            self._woken.clear()
            await self._woken.wait()
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
    def listen(
        self, bells: Sequence[Bell], appetite: int = 1, wish: Wish | None = None
    ) -> Iterator[Listener]:
        """Listen for the time of a block: look first and then wait, and no ring falls between."""
        listener = Listener(appetite, wish)
        different = dict.fromkeys(bells)
        for bell in different:
            self._listening.setdefault(bell, {})[listener] = None
        if self.is_closed:
            # Let in before the server stopped, and too late to be sent home.
            listener.wake(rung=False)
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
            if listener.can_be_rung:
                listener.wake(rung=True)
                worth -= listener.appetite
        return max(worth, 0)

    @contextmanager
    def borrow(self, queue: str) -> Iterator[Listener | None]:
        """Borrow the first who waits for a queue with a wish; it goes back with the block."""
        for listener in self._listening.get(Bell("queue", queue), ()):
            if listener.can_be_lent and not self.is_closed:
                with listener.lent():
                    yield listener
                return
        yield None

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
