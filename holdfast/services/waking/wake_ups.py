"""Tell those who wait for work that there is some: here at once, elsewhere by a transport.

A wake-up is only a hint. The pollers of this server are rung directly; for everybody else it goes
out through the transports, gathered: while one message is on its way, the next ones are folded.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from holdfast.errors import Unavailable
from holdfast.model.work.ids import TaskId
from holdfast.services.waking.doorbell import Bell, Doorbells
from holdfast.services.waking.openings import Openings

log = logging.getLogger("holdfast.wake_ups")
TASKS_PER_HINT_MAX = 1000
PAUSE_SECONDS = 0.02


def is_queue(name: str) -> bool:
    """Tell a queue from the line of placed work, and from a worker that has news."""
    return bool(name) and name[0].isalnum()


class WakeUpTransport(Protocol):
    """A way to wake workers that do not poll this server.

    With `only_leftovers` it need not hear of what those who wait here are about to take.
    """

    only_leftovers: bool

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        """Send a hint that these tasks of a queue can be claimed; it may get lost."""


class WakeUps:
    """Where news about ready tasks comes in, and from where it goes out."""

    def __init__(self, doorbells: Doorbells, transports: Sequence[WakeUpTransport] = ()) -> None:
        self.doorbells = doorbells
        self.openings = Openings(doorbells)
        # One sender for each: a transport that is slow or away holds up no other.
        self._senders = [_Sender(transport) for transport in transports]

    def announce(self, queue: str, task_ids: Sequence[TaskId], count: int | None = None) -> None:
        """Say that tasks can be claimed: `count` of them, of which the first are named."""
        left = self.doorbells.ring(Bell("queue", queue), max(count or len(task_ids), 1))
        for sender in self._senders:
            # Workers that wait elsewhere claim from queues alone.
            if left > 0 if sender.transport.only_leftovers else is_queue(queue):
                sender.add(queue, task_ids)

    def hear(self, queue: str) -> None:
        """Pass on what another server, or a transaction of the user's own, has said."""
        self.doorbells.ring(Bell("queue", queue))

    async def close(self) -> None:
        """Send what is still to be sent."""
        self.openings.close()
        for sender in self._senders:
            await sender.close()


class _Sender:
    """What goes out by one transport."""

    def __init__(self, transport: WakeUpTransport) -> None:
        self.transport = transport
        self._outgoing: dict[str, list[TaskId]] = {}
        self._sending: asyncio.Task[None] | None = None

    def add(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        waiting = self._outgoing.setdefault(queue, [])
        waiting.extend(task_ids[: TASKS_PER_HINT_MAX - len(waiting)])
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while self._outgoing:
            outgoing, self._outgoing = self._outgoing, {}
            for queue, task_ids in outgoing.items():
                try:
                    await self.transport.publish(queue, task_ids)
                except Unavailable as error:
                    # Whoever waits looks again by itself; the work is in the ledger.
                    log.warning("a wake-up for queue %s was not sent: %s", queue, error)
            await asyncio.sleep(PAUSE_SECONDS)
