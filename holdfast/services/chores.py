"""Background work as data: a name, an interval, a function; one loop runs each of them.

Every server runs every chore. They choose rows that nobody holds, lock and check again, so that
any number of servers may do the same chore at once.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from holdfast.errors import Unavailable

log = logging.getLogger("holdfast.chores")
# A turn is followed by a rest of so many times as long. Some chores read all that a table holds,
# dead rows included: where these pile up, it must not be what a ledger is busy with. The longest
# rest is well below what the reaper takes for an outage.
REST_FACTOR = 9.0
REST_SECONDS_MAX = 5.0


@dataclass(slots=True)
class Turns:
    """When the last turn ended, how long the next one is put off, and how it failed, if it did."""

    ended_at: float = field(default_factory=time.monotonic)
    rest: float = 0.0
    error: str | None = None

    def end(self, error: str | None = None) -> None:
        """Note the end of a turn; one that failed is none that was due."""
        self.error = error
        if error is None:
            self.ended_at = time.monotonic()

    def rest_from(self, seconds: float) -> None:
        """Put the next turn off in proportion to what the last one took."""
        self.rest = min(REST_FACTOR * seconds, REST_SECONDS_MAX)

    def late(self, every: float) -> float:
        """Say for how long a turn has been due."""
        return max(time.monotonic() - self.ended_at - max(every, self.rest), 0.0)


@dataclass(frozen=True, slots=True)
class Chore:
    """`run` returns how much it did; as long as it finds `full` or more, it goes on at once.

    Setting `wake` gives it a turn before its time.
    """

    name: str
    every: float
    run: Callable[[], Awaitable[int]]
    full: int = 1
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    turns: Turns = field(default_factory=Turns)


@asynccontextmanager
async def run_in_background(chores: Sequence[Chore]) -> AsyncIterator[None]:
    """Run chores for the time of a block; the one that is being done is finished first."""
    is_stopping = False

    def keep_on() -> bool:
        return not is_stopping

    loops = [asyncio.create_task(_repeat(chore, keep_on), name=chore.name) for chore in chores]
    try:
        yield
    finally:
        is_stopping = True
        for chore in chores:
            chore.wake.set()
        await asyncio.gather(*loops)


async def _repeat(chore: Chore, keep_on: Callable[[], bool]) -> None:
    while keep_on():
        chore.wake.clear()
        began_at = time.monotonic()
        done = await take_turn(chore)
        chore.turns.rest_from(time.monotonic() - began_at)
        if done < chore.full and keep_on():
            with suppress(TimeoutError):
                pause = max(chore.every, chore.turns.rest)
                await asyncio.wait_for(chore.wake.wait(), pause)


async def take_turn(chore: Chore) -> int:
    """Run a chore once; what goes wrong ends this turn, and not the loop."""
    try:
        done = await chore.run()
    except Unavailable as error:
        chore.turns.end(str(error))
        log.warning("%s will be tried again: %s", chore.name, error)
    except Exception as error:
        chore.turns.end(str(error) or type(error).__name__)
        # A broken invariant is told whole, and is never turned into a retry at once.
        log.exception("%s failed", chore.name)
    else:
        chore.turns.end()
        return done
    return 0
