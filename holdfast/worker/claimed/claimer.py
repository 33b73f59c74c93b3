"""Claim tasks whenever there is room for them: from the queues, or what wake-ups name."""

import asyncio
import logging
from contextlib import ExitStack
from functools import partial

from holdfast.errors import LeaseConflict
from holdfast.model.workers.resources import Capacity
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.carried_claim import CarriedClaim
from holdfast.worker.claimed.claims import Claims
from holdfast.worker.claimed.completions import Completions
from holdfast.worker.claimed.running_attempts import RunningAttempts
from holdfast.worker.claimed.sqs import Message
from holdfast.worker.claimed.wake_up_messages import WakeUpMessages

log = logging.getLogger("holdfast.claimer")
CLAIM_WAIT_MS = 10_000
CLAIM_WAIT_PART_MS = 1_000  # for one that does not offer all that this worker has


class Claimer:
    """Keeps a worker in work."""

    def __init__(
        self,
        claims: Claims,
        running: RunningAttempts,
        completions: Completions,
        *,
        wake_ups: WakeUpMessages | None,
    ) -> None:
        self._claims = claims
        self._running = running
        self._completions = completions
        self._wake_ups = wake_ups
        self._is_busy = False
        self._carried: set[asyncio.Task[None]] = set()
        self._is_open = False
        completions.find_claim = self._carry
        completions.on_claim_refused = claims.note_refusal

    async def run(self) -> None:
        """Claim for a part of the room at a time: one claims while what another got is begun."""
        self._is_open = True
        claimers = [
            asyncio.create_task(self._claim_all(CLAIM_WAIT_MS)),
            asyncio.create_task(self._claim_all(0)),
        ]
        self._broken = asyncio.get_running_loop().create_future()
        try:
            await asyncio.gather(*claimers, self._broken)
        finally:
            self._is_open = False
            under_way = [*claimers, *self._carried]
            for claimer in under_way:
                if not claimer.cancelling():  # a second one would end what follows the first
                    claimer.cancel()
            await asyncio.wait(under_way)

    def _carry(self) -> CarriedClaim | None:
        """Give completions that are about to leave a claim to take along, while there is work."""
        if not self._is_open or not self._is_busy or not self._claims.can_be_carried:
            return None
        room = self._running.room()
        if room <= 0:
            return None
        with ExitStack() as stack:
            stack.enter_context(self._running.reserve(room))
            free = stack.enter_context(self._running.book.offer())
            carried = self._claims.prepare_carried(room, free=free)
            claiming = asyncio.create_task(self._take_carried(carried, room))
            self._carried.add(claiming)
            # Not within the task: one that is cancelled before its first step has no within.
            claiming.add_done_callback(partial(self._end_carried, stack.pop_all()))
        return carried

    async def _take_carried(self, carried: CarriedClaim, room: int) -> None:
        attempts = await self._claims.finish_carried(carried)
        self._is_busy = len(attempts) == room
        self._running.begin(attempts)

    def _end_carried(self, held: ExitStack, claiming: asyncio.Task[None]) -> None:
        self._carried.discard(claiming)
        held.close()
        if claiming.cancelled() or self._broken.done():
            return
        if (error := claiming.exception()) is not None:
            self._broken.set_exception(error)

    def _leaves_it_to_completions(self) -> bool:
        """Tell whether the next completions take a claim along: then none goes by itself."""
        return self._is_busy and self._claims.can_be_carried and self._completions.is_sending

    async def _claim_all(self, wait_ms: int) -> None:
        """Claim whenever there is room; without time to wait, only while there is more to have."""
        while True:
            room = self._running.room()
            is_wanted = wait_ms or self._is_busy or self._running.book.has_grown
            if room <= 0 or not is_wanted or self._leaves_it_to_completions():
                await self._running.changes.wait()
                continue
            with self._running.reserve(room), self._running.book.offer() as free:
                # What becomes free while a claim waits is not offered by it: then it is not held.
                is_whole = self._running.book.is_whole(free)
                patience = wait_ms if is_whole else min(wait_ms, CLAIM_WAIT_PART_MS)
                attempts = await self._find_work(room, patience, free)
            self._is_busy = len(attempts) == room
            self._running.begin(attempts)

    async def _find_work(self, room: int, wait_ms: int, free: Capacity | None) -> list[Attempt]:
        """Claim from the queues, or what wake-ups name, and then look at the queues sometimes."""
        if self._wake_ups is None or not wait_ms:
            return await self._claims.claim(room, wait_ms, free=free)
        messages = await self._wake_ups.receive(room)
        attempts: list[Attempt] = []
        try:
            async with asyncio.TaskGroup() as claiming:
                for message in messages:
                    claiming.create_task(self._claim_named(message, attempts, free))
            if room > len(attempts) and self._wake_ups.is_time_to_look():
                attempts += await self._claims.claim(room - len(attempts), 0, free=free)
        except BaseException:
            self._running.hand_back(attempts)  # a drain: one was not heard of yet, these were
            raise
        return attempts

    async def _claim_named(
        self, message: Message, attempts: list[Attempt], free: Capacity | None
    ) -> None:
        """Claim what a wake-up names; its message is deleted with the attempt, or if refused."""
        assert self._wake_ups is not None, "a wake-up came from nowhere"
        try:
            claimed = await self._claims.claim_by_id(message.task_id, free=free)
        except LeaseConflict as error:
            log.debug("a wake-up for task %s was for nothing: %s", message.task_id, error)
            self._wake_ups.delete(message)
            return
        for attempt in claimed:
            self._wake_ups.hold(attempt.key, message)
        attempts += claimed
