"""Leads while no other server does: calls the workers of placed work, and places tasks on them."""

import asyncio
import logging
from collections.abc import Sequence
from itertools import count

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.placed.leadership import Deposed, Term, lead, resign
from holdfast.operations.placed.place import PLACEMENTS_MAX, Scheduler
from holdfast.operations.placed.worker_heartbeats import list_stops
from holdfast.services.chores import Chore, take_turn
from holdfast.services.leading.heartbeat_loop import (
    TICK_SECONDS,
    HeartbeatLoop,
    OnHeartbeat,
    ignore_heartbeat,
)
from holdfast.services.leading.leader_ids import is_gone, make_leader_id
from holdfast.services.leading.reach import LOOPBACK_ONLY, Reach
from holdfast.services.leading.worker_calls import CALL_SECONDS_MAX
from holdfast.services.server_spans import now_ns, trace_placed
from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.services.writers import Writers

log = logging.getLogger("holdfast.leader")
PLACED = Bell("queue", "")
CANDIDATE_SECONDS = 2.0  # a term outlives several missed renewals
PASS_SECONDS = 1.0
STOPS_SECONDS = 0.5
REST_SECONDS_MAX = 0.1


class Leader:
    """This server's share in leading; most of the time, of all servers but one, none."""

    def __init__(
        self,
        ledger: Ledger,
        writers: Writers,
        doorbells: Doorbells,
        *,
        tick: float = TICK_SECONDS,
        call_seconds_max: float = CALL_SECONDS_MAX,
        on_heartbeat: OnHeartbeat = ignore_heartbeat,
        reach: Reach = LOOPBACK_ONLY,
    ) -> None:
        self.leader_id = make_leader_id()
        self._ledger = ledger
        self._writers = writers
        self._doorbells = doorbells
        self.tick = tick
        self._call_seconds_max = call_seconds_max
        self._on_heartbeat = on_heartbeat
        self._reach = reach
        self._numbers = count(1)
        self._heartbeats: HeartbeatLoop | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def is_leading(self) -> bool:
        """Tell whether this server leads, as far as it knows."""
        return self._heartbeats is not None

    def hint(self, worker_ids: Sequence[str]) -> None:
        """Pass on that workers have something to tell; heard by the leader alone."""
        if self._heartbeats is not None:
            self._heartbeats.ring(worker_ids)

    async def stand(self) -> int:
        """Renew the term, or begin one if nobody leads; one step of a chore."""
        term = await lead(self._ledger, self.leader_id, is_gone=is_gone)
        if term is None:
            await self._step_down()
        elif self._serving is None or self._serving.done():
            if self._serving is not None:
                _log_end(self._serving)
            log.info("leading in term %d", term.epoch)
            self._serving = asyncio.create_task(self._serve(term), name="lead")
        return 0

    async def close(self) -> None:
        """Stop leading, and let another server begin at once."""
        has_stood = self._serving is not None
        await self._step_down()
        if has_stood:
            try:
                await resign(self._ledger, self.leader_id)
            except Unavailable as error:
                log.warning("the term runs out by itself: %s", error)

    async def _step_down(self) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await asyncio.wait([serving])
            _log_end(serving)

    async def _serve(self, term: Term) -> None:
        """Call and place for one term."""
        self._heartbeats = HeartbeatLoop(
            self._ledger,
            self._writers,
            term,
            on_change=self._look_again,
            on_heartbeat=self._on_heartbeat,
            numbers=self._numbers,
            tick=self.tick,
            call_seconds_max=self._call_seconds_max,
            reach=self._reach,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._heartbeats.run())
                group.create_task(self._place(term, self._heartbeats))
                group.create_task(self._watch_stops(self._heartbeats))
        except* Deposed as error:
            log.warning("no longer leading: %s", error.exceptions[0])
        finally:
            self._heartbeats = None

    async def _place(self, term: Term, heartbeats: HeartbeatLoop) -> None:
        """Make a pass whenever something can have changed, and each second."""
        scheduler = Scheduler(self._ledger)
        loop = asyncio.get_running_loop()

        async def place() -> int:
            began_ns = now_ns()
            made = await scheduler.run(term, hanging=heartbeats.list_hanging())
            trace_placed(made.placed, began_ns)
            heartbeats.ring({item.worker_id for item in made.placed})
            made.raise_broken()
            return len(made.placed)

        # What goes wrong here ends this pass: workers are called on, and their leases live.
        with self._doorbells.listen([PLACED]) as listener:
            while True:
                began_at = loop.time()
                count = await take_turn(Chore("place", PASS_SECONDS, place))
                ended_at = loop.time()
                if count < PLACEMENTS_MAX:
                    await listener.wait(PASS_SECONDS)
                    # At once after a quiet time. In a flood, half of the time is for others: what
                    # comes in it and during a pass is gathered for the next one.
                    rest = min(ended_at - began_at, REST_SECONDS_MAX)
                    await asyncio.sleep(max(ended_at + rest - loop.time(), 0))

    async def _watch_stops(self, heartbeats: HeartbeatLoop) -> None:
        """Have workers called at once that have something to stop, whichever server was asked."""
        known: set[tuple[str, TaskId, int, bool]] = set()

        async def look() -> int:
            nonlocal known
            stops = await list_stops(self._ledger)
            heartbeats.ring({worker_id for worker_id, *_ in stops - known})
            known = stops
            return len(stops)

        while True:
            await take_turn(Chore("tell placed work what should stop", STOPS_SECONDS, look))
            await asyncio.sleep(STOPS_SECONDS)

    def _look_again(self) -> None:
        self._doorbells.ring(PLACED)


def _log_end(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        log.error("the last term broke off", exc_info=error)
