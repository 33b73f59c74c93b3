"""The read replica: lists, logs and searches go to a standby, as long as it keeps up.

    request ── how far is the primary? ── has the replica applied that? ── yes: read it there
                                               └─ not soon, or it is away: read at the primary

So whoever reads at the replica sees all that was committed when it asked: its own writes, too. The
primary answers with one number per request. While it is away, the replica is read as it is.
"""

import asyncio
import logging
import time
from collections import deque

from prometheus_client import CollectorRegistry, Counter, Gauge

from holdfast.errors import Unavailable
from holdfast.store.database import Database
from holdfast.store.reads.upkeep.replication import Position, read_position

log = logging.getLogger("holdfast.replica")
CONNECTIONS = 4
LOOK_SECONDS = 1.0
# A request waits for so long; a replica that lags by more than a look is not waited for at all.
CATCH_UP_SECONDS_MAX = 0.2
PAUSE_SECONDS = 0.005
# A replica that says nothing for so long is left out: its machine or its network may be gone.
ANSWER_SECONDS_MAX = 1.0
LAG_SECONDS_MAX = 2.0
# Looks that are remembered, so that a lag of ten minutes is shown as it is.
MARKS_MAX = 600


class Replica:
    """A standby for reads, and whether it is near enough to its primary."""

    def __init__(self, primary: Database, url: str | None, registry: CollectorRegistry) -> None:
        self._primary = primary
        self._database = None if url is None else Database(url, connections_max=CONNECTIONS)
        self._is_open = False
        # When the primary was how far: the oldest that the replica has not applied is its lag.
        self._marks: deque[tuple[float, int]] = deque(maxlen=MARKS_MAX)
        self._trouble: str | None = "not looked at yet"
        if url is None:
            return
        self._lag = Gauge(
            "holdfast_read_replica_lag_seconds",
            "How far the read replica is behind its primary.",
            registry=registry,
        )
        self._is_near = Gauge(
            "holdfast_read_replica_is_near",
            "1 if the read replica is near enough to be read, else 0.",
            registry=registry,
        )
        self._reads = Counter(
            "holdfast_replica_reads_total",
            "Reads that a replica may answer, by who did.",
            ("answered_by",),
            registry=registry,
        )

    @property
    def state(self) -> str | None:
        """Say how the replica is, in a few words; None without one."""
        return None if self._database is None else self._trouble or "near"

    async def find(self) -> Database | None:
        """Give the replica once it has all that is committed by now; None: read at the primary."""
        if self._database is None:
            return None
        found = await self._catch_up(self._database) if self._trouble is None else None
        self._reads.labels("primary" if found is None else "replica").inc()
        return found

    async def _catch_up(self, replica: Database) -> Database | None:
        try:
            wanted = (await read_position(self._primary)).position
        except Unavailable:
            return replica  # nobody else can answer
        # Not cancelled when time is up: that would wait for an answer, too.
        applying = asyncio.create_task(self._wait_until_applied(replica, wanted), name="catch up")
        await asyncio.wait({applying}, timeout=ANSWER_SECONDS_MAX)
        if not applying.done():
            self.doubt(Unavailable(f"it has not answered for {ANSWER_SECONDS_MAX:.0f} s"))
            return None
        return replica if applying.result() else None

    async def _wait_until_applied(self, replica: Database, wanted: int) -> bool:
        ends_at = time.monotonic() + CATCH_UP_SECONDS_MAX
        try:
            while (await read_position(replica)).position < wanted:
                if time.monotonic() > ends_at:
                    return False
                await asyncio.sleep(PAUSE_SECONDS)
        except Unavailable as error:
            self.doubt(error)
            return False
        return True

    def doubt(self, error: Unavailable) -> None:
        """Leave the replica out until it has been looked at again: it could not be read."""
        self._change(str(error))

    async def look(self) -> int:
        """Measure how far the replica is behind, and use it or leave it out by that."""
        if self._database is None:
            return 0
        primary = await self._look_at_primary()
        try:
            if not self._is_open:
                await self._database.open()
                self._is_open = True
            replica = await read_position(self._database)
        except Unavailable as error:
            self._change(str(error))
            return 0
        if primary is not None and not replica.follows(primary):
            self._change("it is no standby of the primary: its data are another's, or its own")
            return 0
        lag = self._measure(replica)
        self._lag.set(lag)
        self._change(f"it is {lag:.0f} s behind" if lag > LAG_SECONDS_MAX else None)
        return 0

    async def _look_at_primary(self) -> Position | None:
        try:
            primary = await read_position(self._primary)
        except Unavailable:
            return None
        self._marks.append((time.monotonic(), primary.position))
        return primary

    def _measure(self, replica: Position) -> float:
        while self._marks and self._marks[0][1] <= replica.position:
            self._marks.popleft()
        return time.monotonic() - self._marks[0][0] if self._marks else 0.0

    def _change(self, trouble: str | None) -> None:
        """Note how the replica is; says so when it is left out, and when it is used again."""
        self._is_near.set(trouble is None)
        if trouble is not None and self._trouble is None:
            log.warning("the read replica is not read for now: %s", trouble)
        elif trouble is None and self._trouble is not None:
            log.info("the read replica is read")
        self._trouble = trouble

    def break_off(self) -> None:
        """Wait for it no more."""
        if self._database is not None:
            self._database.break_off()

    async def close(self) -> None:
        """Close its connections."""
        if self._database is not None and self._is_open:
            await self._database.close()
