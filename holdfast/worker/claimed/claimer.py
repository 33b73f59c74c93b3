"""Claim tasks whenever there is room for them: from the queues, or what wake-ups name."""

import asyncio
import logging

from holdfast.errors import LeaseConflict
from holdfast.model.resources import Capacity
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.claims import Claims
from holdfast.worker.claimed.running_attempts import RunningAttempts
from holdfast.worker.claimed.sqs import Message
from holdfast.worker.claimed.wake_up_messages import WakeUpMessages

log = logging.getLogger("holdfast.claimer")
CLAIM_WAIT_MS = 10_000
CLAIM_WAIT_PART_MS = 1_000  # for one that does not offer all that this worker has


class Claimer:
    """Keeps a worker in work."""

    def __init__(
        self, claims: Claims, running: RunningAttempts, wake_ups: WakeUpMessages | None
    ) -> None:
        self._claims = claims
        self._running = running
        self._wake_ups = wake_ups
        self._is_busy = False

    async def run(self) -> None:
        """Claim for half of the room at a time: one claims while what the other got is begun."""
        claimers = [
            asyncio.create_task(self._claim_all(CLAIM_WAIT_MS)),
            asyncio.create_task(self._claim_all(0)),
        ]
        try:
            await asyncio.gather(*claimers)
        finally:
            for claimer in claimers:
                if not claimer.cancelling():  # a second one would end what follows the first
                    claimer.cancel()
            await asyncio.wait(claimers)

    async def _claim_all(self, wait_ms: int) -> None:
        """Claim whenever there is room; without time to wait, only while there is more to have."""
        while True:
            room = self._running.room()
            if room <= 0 or not (wait_ms or self._is_busy or self._running.book.has_grown):
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
