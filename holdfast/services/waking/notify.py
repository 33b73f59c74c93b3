"""Wake-ups between servers, and from users' own transactions, by Postgres LISTEN and NOTIFY."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from holdfast.errors import Unavailable
from holdfast.model.work.ids import TaskId
from holdfast.store.database import Database
from holdfast.store.tables.work.ready import notify_ready

log = logging.getLogger("holdfast.notify")
CHANNEL = "holdfast_ready"
AGAIN_SECONDS = 1.0
NOT_HEARD = (
    "Postgres is behind a pooler, which does not pass wake-ups on: work that becomes ready at "
    "another server is found by looking, within a second; --listen-database-url names Postgres "
    "itself, and --wake-ups local goes without"
)


class NotifyTransport:
    """Publishes the name of the queue on the channel that every server listens to."""

    only_leftovers = True

    def __init__(self, database: Database) -> None:
        self._database = database

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        """Send a hint; the ids stay here, since whoever hears it looks at the whole queue."""
        async with self._database.transaction() as tx:
            await notify_ready(tx, queue)


@asynccontextmanager
async def listening(database: Database, hear: Callable[[str], None]) -> AsyncIterator[None]:
    """Hear what is published, for the time of a block; a lost connection is opened again.

    Behind a pooler there is nothing to hear: whoever waits looks again by itself.
    """
    if database.is_pooled:
        log.warning(NOT_HEARD)
        yield
        return
    listener = asyncio.create_task(_listen(database, hear), name="listen")
    try:
        yield
    finally:
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener


async def _listen(database: Database, hear: Callable[[str], None]) -> None:
    def pass_on(*heard: Any) -> None:
        hear(str(heard[-1]))  # connection, process, channel, and what was said

    while True:
        try:
            async with database.listening(CHANNEL, pass_on) as lost:
                await lost
        except Unavailable as error:
            log.warning("not listening for wake-ups: %s", error)
        await asyncio.sleep(AGAIN_SECONDS)
