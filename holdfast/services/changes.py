"""Which jobs have changed, for everybody who watches: read once per server, however many watch.

A tick names the jobs with new events since the tick before. Whoever watches reads again what it
shows, so a tick may be repeated, and `all` may stand for any number of jobs; none may be missed.
That is why ticks go by transactions: below the horizon of a snapshot all have ended.
"""

import asyncio
import time
from collections import deque
from typing import NamedTuple

from holdfast.store.database import Database
from holdfast.store.reads.output.events import list_changed_jobs, read_horizon

TICK_SECONDS = 0.5
TICKS_KEPT = 600
JOBS_MAX = 500
EVENTS_MAX = 20_000
# Nobody has watched for so long: it begins anew, instead of reading all that was missed.
IDLE_SECONDS = 10.0


class Tick(NamedTuple):
    """What changed before transaction `end`; `all` if it is not known, or if it is too much."""

    end: int
    job_ids: list[int]
    all: bool = False


class Changes:
    """The last ticks of one server, without a gap from transaction `since` to `end`."""

    def __init__(self, database: Database, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._database = database
        self._idle_seconds = idle_seconds
        self._ticks: deque[Tick] = deque()
        self._since = self._end = 0
        self._looked_at: float | None = None
        self._turn = asyncio.Lock()

    async def read(self, after: int | None) -> list[Tick]:
        """List the ticks after the transaction that somebody has seen all before.

        Without one, or with one that is not known here, everything may have changed.
        """
        async with self._turn:
            await self._look()
        if after is None or not self._since <= after <= self._end:
            return [Tick(self._end, [], all=True)]
        return [tick for tick in self._ticks if tick.end > after]

    async def _look(self) -> None:
        now = time.monotonic()
        age = None if self._looked_at is None else now - self._looked_at
        if age is not None and age < TICK_SECONDS:
            return
        async with self._database.transaction() as tx:
            horizon = await read_horizon(tx)
            if age is None or age >= self._idle_seconds or horizon < self._end:
                self._ticks.clear()
                self._since = horizon
            elif horizon > self._end:
                found = await list_changed_jobs(
                    tx, self._end, horizon, count_max=JOBS_MAX, events_max=EVENTS_MAX
                )
                if found is None:
                    self._ticks.append(Tick(horizon, [], all=True))
                elif found:
                    self._ticks.append(Tick(horizon, sorted(found)))
        if len(self._ticks) > TICKS_KEPT:
            self._since = self._ticks.popleft().end
        self._end, self._looked_at = horizon, now
