"""How attempts ended, on its way to the server: sent together, and again until acknowledged."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import msgspec

from holdfast.client.pauses import Pauses
from holdfast.client.refusals import as_exception
from holdfast.client.transport import Transport
from holdfast.errors import Invalid, LeaseConflict, Refused, Unavailable
from holdfast.model.datasets import refusal_stage, weigh
from holdfast.tracing.current import describe
from holdfast.wire.answers import CompletionAnswer, TaskCompleteAnswer
from holdfast.wire.requests import TaskCompleteRequest, TaskCompletion
from holdfast.worker.claimed.attempt import Attempt, count_run_ms
from holdfast.worker.claimed.carried_claim import CarriedClaim
from holdfast.worker.running.attempt_outcome import (
    CLASS_LENGTH_MAX,
    ERROR_LENGTH_MAX,
    Outcome,
    storable,
)
from holdfast.worker.running.spans import span_of

log = logging.getLogger("holdfast.completions")
BATCH_MAX = 1000
BATCH_BYTES_MAX = 8 << 20
SENDERS_MAX = 2
SEND_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0

Report = tuple[Attempt, TaskCompletion]


class Completions:
    """What the server has not acknowledged yet."""

    def __init__(
        self,
        transport: Transport,
        worker_id: str,
        *,
        on_acknowledged: Callable[[Attempt], None],
        on_failure: Callable[[BaseException], None],
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._worker_id = worker_id
        self._on_acknowledged = on_acknowledged
        self._on_idle = on_idle
        self._on_failure = on_failure
        self._waiting: deque[Report] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._unacknowledged = 0
        self._all_acknowledged = asyncio.Event()
        self._all_acknowledged.set()
        self._is_closed = False
        # Asked before each request: a claim to take along, if there should be one.
        self.find_claim: Callable[[], CarriedClaim | None] = lambda: None
        self.on_claim_refused: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return self._unacknowledged

    @property
    def is_sending(self) -> bool:
        """Whether requests are under way: whatever comes next may take a claim along."""
        return bool(self._senders)

    def add(self, attempt: Attempt, outcome: Outcome) -> None:
        """Report to the server how an attempt ended."""
        if self._is_closed:
            log.warning(
                "the end of task %s attempt %d is reported too late",
                *attempt.key,
                extra=describe(attempt),
            )
            return
        self._unacknowledged += 1
        self._all_acknowledged.clear()
        self._waiting.append((attempt, _completion(attempt, outcome)))
        self._wake_sender()

    async def wait_until_acknowledged(self) -> None:
        """Wait until the server has acknowledged everything."""
        await self._all_acknowledged.wait()

    async def close(self) -> None:
        """Give up what could not be reported: the leases will run out."""
        self._is_closed = True
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)

    def _wake_sender(self) -> None:
        if self._waiting and len(self._senders) < SENDERS_MAX:
            sender = asyncio.create_task(self._send_all())
            self._senders.add(sender)
            sender.add_done_callback(self._end_sender)

    def _end_sender(self, sender: asyncio.Task[None]) -> None:
        """Forget a sender; what was added since its last look found it still here.

        A bug here is told: a worker that cannot say how its attempts end must not go on.
        """
        self._senders.discard(sender)
        if sender.cancelled():
            return
        if (error := sender.exception()) is not None:
            self._on_failure(error)
            return
        self._wake_sender()
        if not self._senders:
            self._on_idle()

    async def _send_all(self) -> None:
        pauses = Pauses(PAUSE_SECONDS, PAUSE_SECONDS_MAX)
        while self._waiting:
            left = await self._send_with_claim(self._take())
            self._waiting.extendleft(reversed(left))
            if not left:
                pauses.reset()
                continue
            await asyncio.sleep(pauses.next())

    def _take(self) -> list[Report]:
        """Take what waits, as far as it fits into one request."""
        batch: list[Report] = []
        size = 0
        while self._waiting and len(batch) < BATCH_MAX:
            size += _size(self._waiting[0][1])
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _send_with_claim(self, batch: list[Report]) -> list[Report]:
        """Send completions once, and with them a claim if there is room for more work."""
        carried = self.find_claim()
        if carried is None:
            return await self._send(batch)
        try:
            return await self._send(batch, carried)
        finally:
            carried.give_up()  # unless it was answered

    async def _send(self, batch: list[Report], carried: CarriedClaim | None = None) -> list[Report]:
        """Send completions once; returns what has to be sent again."""
        body = TaskCompleteRequest(self._worker_id, [item for _, item in batch])
        if carried is not None:
            body = msgspec.structs.replace(body, claim=carried.body)
            carried.note_sent()
        try:
            answer = await self._transport.call(
                "POST",
                "/internal/task-complete",
                TaskCompleteAnswer,
                body=body,
                seconds_max=SEND_SECONDS_MAX,
            )
        except Invalid as error:
            if carried is not None and (error.field or "").partition(".")[0] == "claim":
                # Another server than the one that offered it, and an older one.
                self.on_claim_refused()
                return await self._send(batch)
            if len(batch) == 1:
                return self._revise(batch[0], error)
            # One of them is at fault: the others must not wait for it.
            middle = len(batch) // 2
            return await self._send(batch[:middle]) + await self._send(batch[middle:])
        except (Unavailable, Refused) as error:
            log.warning("%d completions will be sent again: %s", len(batch), error)
            return batch
        if carried is not None:
            carried.answer(answer)
        left: list[Report] = []
        for report, result in zip(batch, answer.results, strict=True):
            left += self._read_result(report, result)
        return left

    def _read_result(self, report: Report, result: CompletionAnswer) -> list[Report]:
        if result.error is not None:
            error = as_exception(result.error)
            if isinstance(error, Unavailable):
                log.warning(
                    "the end of task %s will be reported again: %s",
                    report[0].task_id,
                    error,
                    extra=describe(report[0]),
                )
                return [report]
            if not isinstance(error, LeaseConflict):
                return self._revise(report, error)
        self._forget(report[0])
        return []

    def _revise(self, report: Report, error: Exception) -> list[Report]:
        """Report it in another way: what the server cannot keep of a success is how it failed."""
        attempt, item = report
        if item.status == "succeeded":
            stage = refusal_stage(error)
            outcome = Outcome("failed", None, str(error), "PermanentError", stage)
            return [(attempt, _completion(attempt, outcome))]
        if item.put_off is not None:  # by a server of a version that does not know it: a failure
            return [(attempt, msgspec.structs.replace(item, put_off=None))]
        log.error(
            "the end of task %s attempt %d cannot be reported: %s",
            *attempt.key,
            error,
            extra=describe(attempt),
        )
        self._forget(attempt)
        return []

    def _forget(self, attempt: Attempt) -> None:
        self._unacknowledged -= 1
        if not self._unacknowledged:
            self._all_acknowledged.set()
        self._on_acknowledged(attempt)


def _completion(attempt: Attempt, outcome: Outcome) -> TaskCompletion:
    return TaskCompletion(
        attempt.task_id,
        attempt.number,
        attempt.lease_token,
        outcome.status,
        outcome.exit_code,
        None if outcome.error is None else storable(outcome.error, ERROR_LENGTH_MAX),
        None if outcome.error_class is None else storable(outcome.error_class, CLASS_LENGTH_MAX),
        outcome.stage,
        msgspec.UNSET if outcome.result is None else msgspec.Raw(outcome.result.encode()),
        start_reported=attempt.start_reported,
        usage=attempt.usage.latest,
        trace_parent=span_of(attempt),
        outputs=outcome.outputs,
        run_ms=count_run_ms(attempt),
        put_off=outcome.put_off,
    )


def _size(item: TaskCompletion) -> int:
    result = 0 if item.result is msgspec.UNSET else memoryview(item.result).nbytes
    return result + len(item.error or "") + (weigh(item.outputs) if item.outputs else 0)
