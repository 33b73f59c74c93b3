"""Background work as data: a name, an interval, a function; one loop runs each of them.

Every server runs every chore. They choose rows without locks, then lock and check again, so that
any number of servers may do the same chore at once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.errors import Unavailable

log = logging.getLogger("holdfast.chores")
TURNS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Chore:
    """`run` returns how much it did; as long as it finds `full` or more, it goes on at once."""

    name: str
    every: float
    run: Callable[[], Awaitable[int]]
    full: int = 1


async def run_once(chore: Chore) -> int:
    """Do a chore until a turn finds less than a full load; returns how much was done."""
    total = 0
    for _ in range(TURNS_MAX):
        count = await chore.run()
        total += count
        if count < chore.full:
            break
    return total


@asynccontextmanager
async def run_in_background(chores: Sequence[Chore]) -> AsyncIterator[None]:
    """Run chores for the time of a block; the one that is being done is finished first."""
    stopping = asyncio.Event()
    loops = [asyncio.create_task(_repeat(chore, stopping), name=chore.name) for chore in chores]
    try:
        yield
    finally:
        stopping.set()
        await asyncio.gather(*loops)


async def _repeat(chore: Chore, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        try:
            await run_once(chore)
        except Unavailable as error:
            log.warning("%s will be tried again: %s", chore.name, error)
        except Exception:
            # A broken invariant ends this turn, is told whole, and does not end the loop.
            log.exception("%s failed", chore.name)
        try:
            await asyncio.wait_for(stopping.wait(), chore.every)
        except TimeoutError:
            continue
