"""The calls that a worker of placed work makes; all else it answers when the server calls.

Only registering has to succeed: what else does not arrive, the next heartbeat brings.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.model.programs import DATE_HEADER, write_date
from holdfast.wire.answers import TaskCompleteAnswer, WorkerRegisterAnswer
from holdfast.wire.cluster import WorkerDrainRequest, WorkerLeaveRequest, WorkerNewsRequest
from holdfast.wire.requests import (
    Nothing,
    TaskCompleteRequest,
    TaskCompletion,
    WorkerRegisterRequest,
)
from holdfast.wire.status import Changed

log = logging.getLogger("holdfast.placed")
CALL_SECONDS_MAX = 15.0
CALLED_SECONDS_MAX = 0.5


class ServerCalls:
    """The calls of one worker; each returns whether the server has taken it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._is_call_wanted = asyncio.Event()
        self._was_called = asyncio.Event()

    async def register(self, body: WorkerRegisterRequest) -> WorkerRegisterAnswer:
        """Register an incarnation. Raises what the server refuses, or Unavailable."""
        path = "/internal/worker-register"
        return await self._transport.call(
            "POST",
            path,
            WorkerRegisterAnswer,
            body=body,
            headers={DATE_HEADER: write_date(datetime.now(UTC))},
            seconds_max=CALL_SECONDS_MAX,
        )

    def ask_for_call(self) -> None:
        """Ask to be called soon: something has happened here."""
        self._is_call_wanted.set()

    async def send_call_requests(self, worker_id: Callable[[], str]) -> None:
        """Pass on what `ask_for_call` asks, at once, until cancelled.

        What happens before the call comes is in the answer to it, and needs no asking.
        """
        while True:
            await self._is_call_wanted.wait()
            self._is_call_wanted.clear()
            self._was_called.clear()
            await self._call("/internal/worker-news", body=WorkerNewsRequest(worker_id()))
            with suppress(TimeoutError):  # there may be no leader this moment
                async with asyncio.timeout(CALLED_SECONDS_MAX):
                    await self._was_called.wait()

    def note_called(self) -> None:
        """Note that a call is being answered, with all that has happened here."""
        self._is_call_wanted.clear()
        self._was_called.set()

    async def drain(self, worker_id: str) -> bool:
        """Report that nothing more is taken here."""
        body = WorkerDrainRequest(worker_id)
        return await self._call("/internal/worker-drain", Changed, body=body)

    async def complete(self, worker_id: str, completions: Sequence[TaskCompletion]) -> list[bool]:
        """Report ends without waiting to be called; returns which of them the server knows now."""
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
            log.info("the server did not learn how attempts ended: %s", error)
            return [False] * len(completions)
        # A lease that is gone is an answer as well: nobody waits for this end any more.
        return [
            result.error is None or result.error.code == "lease_conflict"
            for result in answer.results
        ]

    async def leave(self, worker_id: str, secret: str) -> bool:
        """Report that this incarnation is gone with all that it ran."""
        return await self._call(
            "/internal/worker-leave", body=WorkerLeaveRequest(worker_id, secret)
        )

    async def _call(self, path: str, answer: type = Nothing, *, body: object = None) -> bool:
        try:
            await self._transport.call(
                "POST", path, answer, body=body, seconds_max=CALL_SECONDS_MAX
            )
        except (Unavailable, Refused) as error:
            log.info("the server did not take a call (%s): %s", path, error)
            return False
        return True
