"""Send the output of attempts to the server while it is written."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.wire.answers import LogAppendAnswer
from holdfast.wire.requests import LogAppendRequest
from holdfast.worker.running.tail import LogTail

log = logging.getLogger("holdfast.shipping")
TAIL_SECONDS = 0.3
LOG_CALL_SECONDS_MAX = 10.0


class Shipper:
    """Sends what is written to one attempt's output; whoever has the lease may do so."""

    def __init__(
        self,
        transport: Transport,
        task_id: str,
        number: int,
        *,
        token: UUID,
        is_lost: Callable[[], bool],
    ) -> None:
        self._transport = transport
        self._task_id = task_id
        self._number = number
        self._token = token
        self._is_lost = is_lost

    async def ship(self, tail: LogTail, gone: asyncio.Event) -> None:
        """Send output as it is written, and the rest once the process is gone.

        A process that floods its log holds up neither the server nor what comes last: beyond the
        head it gets one piece at a time, and what is too old by then is passed over.
        """
        is_last = False
        while not is_last:
            is_last = gone.is_set()
            try:
                while (piece := tail.read_new()) is not None:
                    if not await self._append(*piece):
                        return
                    tail.note_sent()
                    if tail.is_long and not is_last:
                        break
            except OSError as error:
                log.warning("output of task %s cannot be read: %s", self._task_id, error)
                return
            # Not wait_for: of a cancel that meets the end it would keep the end alone.
            with suppress(TimeoutError):
                async with asyncio.timeout(TAIL_SECONDS):
                    await gone.wait()

    async def _append(self, offset: int, content: bytes) -> bool:
        """Send a piece until it is stored; False if nobody will have it."""
        body = LogAppendRequest(self._task_id, self._number, self._token, offset, content)
        while not self._is_lost():
            try:
                await self._transport.insist(
                    "POST",
                    "/internal/task-log",
                    LogAppendAnswer,
                    body=body,
                    seconds_max=LOG_CALL_SECONDS_MAX,
                )
            except Refused as error:
                log.info("output of task %s is not kept: %s", self._task_id, error)
                return False
            except Unavailable as error:
                log.warning("output of task %s waits: %s", self._task_id, error)
            else:
                return True
        return False
