"""`client.queues`: what waits in the queues, and whether it is handed out."""

from collections.abc import Coroutine
from typing import Any
from urllib.parse import quote

from holdfast.client.both import both
from holdfast.client.namespaces.namespace import Namespace
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed, QueueList


class Queues(Namespace):
    """Queues, by their names."""

    @both
    def list(self) -> Coroutine[Any, Any, QueueList]:
        """List queues with what waits in them."""
        return self._client.read("/api/queues", QueueList)

    @both
    async def pause(self, queue: str) -> None:
        """Hand out nothing more from a queue."""
        await self._ask(queue, "pause")

    @both
    async def resume(self, queue: str) -> None:
        """Hand out tasks of a queue again."""
        await self._ask(queue, "resume")

    async def _ask(self, queue: str, verb: str) -> None:
        path = f"/api/queues/{quote(queue, '/:@')}:{verb}"
        await self._client.change(path, Nothing(), Changed)
