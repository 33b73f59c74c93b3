"""What is heard on the channel of wake-ups."""

import asyncio
from typing import Any

CHANNEL = "holdfast_ready"
SECONDS_MAX = 30.0


class Ear:
    """A connection that listens as a server does."""

    def __init__(self, listener: Any, speaker: Any) -> None:
        self._listener = listener
        self._speaker = speaker
        self._heard: asyncio.Queue[str] = asyncio.Queue()

    async def open(self) -> None:
        """Begin to listen."""
        await self._listener.add_listener(CHANNEL, self._hear)

    def _hear(self, _: Any, __: int, ___: str, payload: object) -> None:
        self._heard.put_nowait(str(payload))

    async def heard(self) -> list[str]:
        """List what was sent until now: a last message shows that nothing else is on its way."""
        await self._speaker.execute("select pg_notify($1, 'that was all')", CHANNEL)
        found = []
        async with asyncio.timeout(SECONDS_MAX):
            while (payload := await self._heard.get()) != "that was all":
                found.append(payload)
        return found
