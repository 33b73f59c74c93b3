"""Leads while no other server does: calls the workers of placed work, and places tasks on them."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from holdfast.errors import Unavailable
from holdfast.operations.leadership import Deposed, Term, lead, resign
from holdfast.operations.ledger import Ledger
from holdfast.operations.place import PLACEMENTS_MAX, Scheduler
from holdfast.services.beats import TICK_SECONDS, Beats, OnBeat, ignore_beat
from holdfast.services.doorbell import Bell, Doorbells
from holdfast.services.writers import Writers

log = logging.getLogger("holdfast.leader")
PLACED = Bell("queue", "")
CANDIDATE_SECONDS = 2.0  # a term outlives several missed renewals
PASS_SECONDS = 1.0
PAUSE_SECONDS = 0.02


class Leader:
    """This server's share in leading; most of the time, of all servers but one, none."""

    def __init__(
        self,
        ledger: Ledger,
        writers: Writers,
        doorbells: Doorbells,
        *,
        tick: float = TICK_SECONDS,
        on_beat: OnBeat = ignore_beat,
    ) -> None:
        self.leader_id = uuid4().hex
        self._ledger = ledger
        self._writers = writers
        self._doorbells = doorbells
        self._tick = tick
        self._on_beat = on_beat
        self._beats: Beats | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def is_leading(self) -> bool:
        """Tell whether this server leads, as far as it knows."""
        return self._beats is not None

    def hint(self, worker_ids: Sequence[str]) -> None:
        """Pass on that workers have something to tell; heard by the leader alone."""
        if self._beats is not None:
            self._beats.ring(worker_ids)

    async def stand(self) -> int:
        """Renew the term, or begin one if nobody leads; one step of a chore."""
        term = await lead(self._ledger, self.leader_id)
        if term is None:
            await self._step_down()
        elif self._serving is None or self._serving.done():
            if self._serving is not None and (error := self._serving.exception()) is not None:
                log.error("the last term broke off", exc_info=error)
            log.info("leading in term %d", term.epoch)
            self._serving = asyncio.create_task(self._serve(term), name="lead")
        return 0

    async def close(self) -> None:
        """Stop leading, and let another server begin at once."""
        was_leading = self.is_leading
        await self._step_down()
        if was_leading:
            with suppress(Unavailable):  # then the term runs out by itself
                await resign(self._ledger, self.leader_id)

    async def _step_down(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving
            self._serving = None

    async def _serve(self, term: Term) -> None:
        """Call and place for one term."""
        self._beats = Beats(
            self._ledger,
            self._writers,
            term,
            on_change=self._look_again,
            on_beat=self._on_beat,
            tick=self._tick,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beats.run())
                group.create_task(self._place(term, self._beats))
        except* Deposed as error:
            log.warning("no longer leading: %s", error.exceptions[0])
        finally:
            self._beats = None

    async def _place(self, term: Term, beats: Beats) -> None:
        """Make a pass whenever something can have changed, and each second."""
        scheduler = Scheduler(self._ledger)
        with self._doorbells.listen([PLACED]) as listener:
            while True:
                placed = []
                try:
                    placed = await scheduler.run(term)
                except Deposed:
                    raise
                except Unavailable as error:
                    log.warning("tasks will be placed later: %s", error)
                beats.ring({item.worker_id for item in placed})
                if len(placed) < PLACEMENTS_MAX:
                    await listener.wait(PASS_SECONDS)
                    await asyncio.sleep(PAUSE_SECONDS)

    def _look_again(self) -> None:
        self._doorbells.ring(PLACED)
