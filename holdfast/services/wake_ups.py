"""Tell those who wait for work that there is some: here at once, elsewhere by a transport.

A wake-up is only a hint. The pollers of this server are rung directly; what they leave over goes
out through the transports, gathered: while one message is on its way, the next ones are folded.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from holdfast.errors import Unavailable
from holdfast.model.ids import TaskId
from holdfast.services.doorbell import Bell, Doorbells

log = logging.getLogger("holdfast.wake_ups")
TASKS_PER_HINT_MAX = 1000
PAUSE_SECONDS = 0.02


class Transport(Protocol):
    """A way to wake workers that do not poll this server."""

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        """Send a hint that these tasks of a queue can be claimed; it may get lost."""


class WakeUps:
    """Where news about ready tasks comes in, and from where it goes out."""

    def __init__(self, doorbells: Doorbells, transports: Sequence[Transport] = ()) -> None:
        self.doorbells = doorbells
        self._transports = transports
        self._outgoing: dict[str, list[TaskId]] = {}
        self._sender: asyncio.Task[None] | None = None

    def announce(self, queue: str, task_ids: Sequence[TaskId], count: int | None = None) -> None:
        """Say that tasks can be claimed: `count` of them, of which the first are named."""
        self.doorbells.ring(Bell("queue", queue), count or len(task_ids))
        if self._transports:
            waiting = self._outgoing.setdefault(queue, [])
            waiting.extend(task_ids[: TASKS_PER_HINT_MAX - len(waiting)])
            if self._sender is None or self._sender.done():
                self._sender = asyncio.create_task(self._send())

    def hear(self, queue: str) -> None:
        """Pass on what another server, or a transaction of the user's own, has said."""
        self.doorbells.ring(Bell("queue", queue))

    async def close(self) -> None:
        """Send what is still to be sent."""
        if self._sender is not None:
            await self._sender

    async def _send(self) -> None:
        while self._outgoing:
            outgoing, self._outgoing = self._outgoing, {}
            for queue, task_ids in outgoing.items():
                for transport in self._transports:
                    try:
                        await transport.publish(queue, task_ids)
                    except Unavailable as error:
                        # Whoever waits looks again by itself; the work is in the ledger.
                        log.warning("a wake-up for %s was not sent: %s", queue, error)
            await asyncio.sleep(PAUSE_SECONDS)
