"""Wake-ups that a worker has received: each message is held while its task is in work.

SQS only says where to look. When it is away, or has been quiet for a while, the worker looks at its
queues itself: a hint that was lost costs time, never the task.
"""

import asyncio
import logging
import time

from holdfast.errors import Unavailable
from holdfast.worker.claimed.sqs import Message, SqsInbox

log = logging.getLogger("holdfast.wake_ups")
LOOK_EVERY_SECONDS = 10.0
AGAIN_SECONDS = 1.0

Key = tuple[str, int]


class WakeUpMessages:
    """An inbox, and the messages whose tasks this worker has."""

    def __init__(self, inbox: SqsInbox) -> None:
        self._inbox = inbox
        self._held: dict[Key, Message] = {}
        self._deleting: set[asyncio.Task[None]] = set()
        self._looked_at = time.monotonic()

    async def receive(self, messages_max: int) -> list[Message]:
        """Wait for messages for a while; none if SQS is away, and then it is time to look."""
        try:
            return await self._inbox.receive(messages_max)
        except Unavailable as error:
            log.warning("no wake-ups from SQS: %s", error)
            self._looked_at = float("-inf")
            await asyncio.sleep(AGAIN_SECONDS)
            return []

    def is_time_to_look(self) -> bool:
        """Tell whether to look at the queues without a hint; saying yes starts the clock anew."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_SECONDS:
            return False
        self._looked_at = now
        return True

    def hold(self, key: Key, message: Message) -> None:
        """Keep a message invisible while its attempt is in work."""
        self._held[key] = message

    def drop(self, key: Key) -> None:
        """Delete the message of an attempt whose end the server has heard of, if it has one."""
        message = self._held.pop(key, None)
        if message is not None:
            self.delete(message)

    def delete(self, message: Message) -> None:
        """Delete a message in the background; if that fails it comes back and is refused."""
        task = asyncio.create_task(self._inbox.delete(message))
        self._deleting.add(task)
        task.add_done_callback(self._deleting.discard)

    async def close(self) -> None:
        """Finish what is being deleted; what is still held becomes visible to others."""
        await asyncio.gather(*self._deleting)
        await self._inbox.close()
