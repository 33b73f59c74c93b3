"""How attempts ended, on its way to the server: gathered, sent, and sent again until heard."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import msgspec

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.wire.answers import CompletionAnswer, TaskCompleteAnswer
from holdfast.wire.requests import TaskCompleteRequest, TaskCompletion
from holdfast.worker.attempt import Attempt
from holdfast.worker.function import Outcome

log = logging.getLogger("holdfast.outbox")
BATCH_MAX = 1000
SENDERS_MAX = 2
SEND_SECONDS_MAX = 30.0
PAUSE_SECONDS_MAX = 2.0
_REFUSED_FOR_GOOD = ("invalid", "too_large")


class Outbox:
    """Completions that the server has not acknowledged yet."""

    def __init__(
        self, transport: Transport, worker_id: str, on_heard: Callable[[Attempt], None]
    ) -> None:
        self._transport = transport
        self._worker_id = worker_id
        self._on_heard = on_heard
        self._waiting: deque[tuple[Attempt, TaskCompletion]] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._unheard = 0
        self._all_heard = asyncio.Event()
        self._all_heard.set()

    def __len__(self) -> int:
        return self._unheard

    def add(self, attempt: Attempt, outcome: Outcome) -> None:
        """Tell the server how an attempt ended."""
        self._unheard += 1
        self._all_heard.clear()
        self._waiting.append((attempt, _completion(attempt, outcome)))
        if len(self._senders) < SENDERS_MAX:
            sender = asyncio.create_task(self._send_all())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)

    async def wait_until_heard(self) -> None:
        """Wait until the server has heard of everything."""
        await self._all_heard.wait()

    async def close(self) -> None:
        """Give up what could not be told: the leases will run out."""
        for sender in list(self._senders):
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)

    async def _send_all(self) -> None:
        pause = 0.05
        while self._waiting:
            count = min(len(self._waiting), BATCH_MAX)
            batch = [self._waiting.popleft() for _ in range(count)]
            try:
                answer = await self._transport.call(
                    "POST",
                    "/internal/task-complete",
                    TaskCompleteAnswer,
                    body=TaskCompleteRequest(self._worker_id, [item for _, item in batch]),
                    seconds_max=SEND_SECONDS_MAX,
                )
            except (Unavailable, Refused) as error:
                log.warning("%d completions will be sent again: %s", count, error)
                self._waiting.extendleft(reversed(batch))
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
                continue
            except asyncio.CancelledError:
                self._waiting.extendleft(reversed(batch))
                raise
            pause = 0.05
            for (attempt, item), result in zip(batch, answer.results, strict=True):
                self._hear(attempt, item, result)

    def _hear(self, attempt: Attempt, item: TaskCompletion, result: CompletionAnswer) -> None:
        if result.error is not None and result.error.code == "internal":
            self._waiting.append((attempt, item))
            return
        if result.error is not None and result.error.code in _REFUSED_FOR_GOOD:
            if item.status != "failed":
                # The server cannot keep what the function returned: that is how it failed.
                outcome = Outcome("failed", None, result.error.message, "PermanentError", "output")
                self._waiting.append((attempt, _completion(attempt, outcome)))
                return
            log.error("the end of task %s cannot be told: %s", *attempt.key)
        self._unheard -= 1
        if not self._unheard:
            self._all_heard.set()
        self._on_heard(attempt)


def _completion(attempt: Attempt, outcome: Outcome) -> TaskCompletion:
    return TaskCompletion(
        attempt.task_id,
        attempt.number,
        attempt.lease_token,
        outcome.status,
        outcome.exit_code,
        outcome.error,
        outcome.error_class,
        outcome.stage,
        msgspec.UNSET if outcome.result is None else msgspec.Raw(outcome.result.encode()),
        start_reported=attempt.start_told,
    )
