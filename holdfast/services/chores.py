"""Background work as data: a name, an interval, a function; one loop runs each of them.

Every server runs every chore. They choose rows that nobody holds, lock and check again, so that
any number of servers may do the same chore at once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from holdfast.errors import Unavailable

log = logging.getLogger("holdfast.chores")


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
        if await take_turn(chore) < chore.full and keep_on():
            with suppress(TimeoutError):
                await asyncio.wait_for(chore.wake.wait(), chore.every)


async def take_turn(chore: Chore) -> int:
    """Run a chore once; what goes wrong ends this turn, and not the loop."""
    try:
        return await chore.run()
    except Unavailable as error:
        log.warning("%s will be tried again: %s", chore.name, error)
    except Exception:
        # A broken invariant is told whole, and is never turned into a retry at once.
        log.exception("%s failed", chore.name)
    return 0
