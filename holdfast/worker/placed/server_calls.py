"""What a worker of placed work says to the server of its own accord; the rest it says when called.

All but to register can be done without: what was not heard comes out with the next heartbeat.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.wire.answers import TaskCompleteAnswer, WorkerRegisterAnswer
from holdfast.wire.requests import (
    Nothing,
    TaskCompleteRequest,
    TaskCompletion,
    WorkerLeaveRequest,
    WorkerNewsRequest,
    WorkerRegisterRequest,
)
from holdfast.wire.status import Changed

log = logging.getLogger("holdfast.placed")
CALL_SECONDS_MAX = 15.0
NEWS_PAUSE_SECONDS = 0.02


class PlacedCalls:
    """The calls of one worker; each returns whether the server has heard it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._has_news = asyncio.Event()

    async def register(self, body: WorkerRegisterRequest) -> WorkerRegisterAnswer:
        """Register an incarnation. Raises what the server refuses, or Unavailable."""
        path = "/internal/worker-register"
        return await self._transport.call(
            "POST", path, WorkerRegisterAnswer, body=body, seconds_max=CALL_SECONDS_MAX
        )

    def tell_news(self) -> None:
        """Ask to be called soon: something has happened here."""
        self._has_news.set()

    async def pass_news_on(self, worker_id: Callable[[], str]) -> None:
        """Pass on that there is news, once for all that comes within a moment, until cancelled."""
        while True:
            await self._has_news.wait()
            await asyncio.sleep(NEWS_PAUSE_SECONDS)
            self._has_news.clear()
            await self._call("/internal/worker-news", body=WorkerNewsRequest(worker_id()))

    async def drain(self, worker_id: str) -> bool:
        """Say that nothing more is taken here."""
        return await self._call(f"/api/workers/{worker_id}:drain", Changed)

    async def complete(self, worker_id: str, completions: Sequence[TaskCompletion]) -> list[bool]:
        """Say how attempts ended, without waiting to be called; returns which ends were heard."""
        if not completions:
            return []
        body = TaskCompleteRequest(worker_id, list(completions))
        try:
            answer = await self._transport.call(
                "POST",
                "/internal/task-complete",
                TaskCompleteAnswer,
                body=body,
                seconds_max=CALL_SECONDS_MAX,
            )
        except (Unavailable, Refused) as error:
            log.info("the server was not told how attempts ended: %s", error)
            return [False] * len(completions)
        # A lease that is gone is an answer as well: nobody waits for this end any more.
        return [
            result.error is None or result.error.code == "lease_conflict"
            for result in answer.results
        ]

    async def leave(self, worker_id: str, secret: str) -> bool:
        """Say that this incarnation is gone with all that it ran."""
        return await self._call(
            "/internal/worker-leave", body=WorkerLeaveRequest(worker_id, secret)
        )

    async def _call(self, path: str, answer: type = Nothing, *, body: object = None) -> bool:
        try:
            await self._transport.call(
                "POST", path, answer, body=body, seconds_max=CALL_SECONDS_MAX
            )
        except (Unavailable, Refused) as error:
            log.info("the server was not told (%s): %s", path, error)
            return False
        return True
