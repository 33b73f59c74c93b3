"""What functions write while they run in this process, on its way to the server.

user code, any thread ── write ──► memory, bounded ── one request for all ──► server
                                                          │ all sent, or given up
                                                          └──► the completion of its attempt

Nobody who writes waits for the server. An attempt that writes nothing has no part in this.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import NamedTuple

from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.model.work.log_limits import HEAD_BYTES, TAIL_BYTES
from holdfast.tracing.current import describe
from holdfast.wire.answers import LogBatchAnswer
from holdfast.wire.requests import LogAppendRequest, LogBatchRequest
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.tail import LONG_STRETCH_BYTES_MAX, STRETCH_BYTES_MAX, cut_piece

log = logging.getLogger("holdfast.output")
WAITING_BYTES_MAX = 64 << 20
BATCH_BYTES_MAX = 4 << 20
SEND_EVERY_SECONDS = 0.3
SEND_SECONDS_MAX = 10.0
PAUSE_SECONDS = 0.5
# How long the end of an attempt waits until its output is sent.
FLUSH_SECONDS_MAX = 60.0


class AttemptOutput:
    """What one attempt has written and nobody has taken yet: of a long log, both ends."""

    __slots__ = (
        "_dropped",
        "_head",
        "_last",
        "_left_out",
        "_tail",
        "_taken",
        "give_up_at",
        "in_flight",
        "is_lost",
        "is_open",
        "on_sent",
    )

    def __init__(self) -> None:
        self._head = bytearray()
        # Behind the head, and how many bytes of it were let go since the last was taken.
        self._tail = bytearray()
        self._left_out = 0
        self._taken = 0
        self._dropped = 0
        self._last = b"\n"
        self.is_open = True
        self.is_lost = False
        self.in_flight = 0
        # Once the attempt is over: whom to tell that all is sent, and until when to try.
        self.on_sent: Callable[[], None] | None = None
        self.give_up_at = 0.0

    def __len__(self) -> int:
        return len(self._head) + len(self._tail)

    @property
    def may_wait(self) -> bool:
        """Tell whether what waits is behind the head of a log that goes on."""
        return not self._head and self.is_open and self._taken >= HEAD_BYTES

    def add(self, content: bytes, room: int) -> int:
        """Keep what was written, if there is room; returns by how many bytes this has grown."""
        if not self.is_open:
            return 0
        if len(content) > room:
            self._dropped += len(content)
            return 0
        return self._note_dropped() + self._append(content)

    def end(self) -> int:
        """Keep nothing more than what is here; returns by how many bytes this has grown."""
        grown = self._note_dropped() if self.is_open else 0
        self.is_open = False
        return grown

    def take(self) -> tuple[int, bytes]:
        """Take a stretch and its offset; one that is not the last ends with a line, if it can."""
        waiting, bytes_max = self._head, STRETCH_BYTES_MAX
        if not waiting:
            self._taken += self._left_out
            self._left_out = 0
            waiting, bytes_max = self._tail, LONG_STRETCH_BYTES_MAX
        content = bytes(waiting[:bytes_max])
        if len(content) < len(self):
            content = cut_piece(content)
        del waiting[: len(content)]
        offset = self._taken
        self._taken += len(content)
        return offset, content

    def clear(self) -> int:
        """Let go of everything, and keep nothing more; returns how many bytes that were."""
        size = len(self)
        self._head.clear()
        self._tail.clear()
        self.is_open = False
        return size

    def _note_dropped(self) -> int:
        """Say within the output that some of it is missing."""
        if not self._dropped:
            return 0
        line = b"[%d bytes were dropped: the server did not take them in time]\n" % self._dropped
        self._dropped = 0
        return self._append(line if self._last == b"\n" else b"\n" + line)

    def _append(self, content: bytes) -> int:
        """Add to what waits; returns by how many bytes that has grown, or shrunk."""
        size = len(self)
        self._last = content[-1:] or self._last
        room = HEAD_BYTES - self._taken - len(self._head)
        if not self._tail and not self._left_out and room > 0:
            head = content if len(content) <= room else cut_piece(content[:room])
            self._head += head
            content = content[len(head) :]
        self._tail += content
        # Seldom, and then much: to let go of bytes is to move all others.
        if len(self._tail) > TAIL_BYTES + TAIL_BYTES // 4:
            surplus = len(self._tail) - TAIL_BYTES
            surplus = self._tail.find(b"\n", surplus, surplus + STRETCH_BYTES_MAX) + 1 or surplus
            del self._tail[:surplus]
            self._left_out += surplus
        return len(self) - size


class _Stretch(NamedTuple):
    """Some output of one attempt."""

    attempt: Attempt
    output: AttemptOutput
    request: LogAppendRequest


class FunctionOutputs:
    """The output of all functions in this process, sent together as long as there is any."""

    def __init__(
        self, transport: Transport, *, on_failure: Callable[[BaseException], None]
    ) -> None:
        self._transport = transport
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        # Under the lock: whose output waits, how much that is, and whether the sender knows.
        self._waiting: dict[Attempt, AttemptOutput] = {}
        self._waiting_bytes = 0
        self._is_awake = False
        self._sender: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        # Attempts that are over, but for their output.
        self._ending: dict[Attempt, AttemptOutput] = {}
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    def __len__(self) -> int:
        return len(self._ending)

    def write(self, attempt: Attempt, content: bytes) -> None:
        """Keep what an attempt has written; any thread may, and none waits for anything.

        It may be interrupted after any step: what is noted first, then done again does no harm.
        """
        with self._lock:
            output = attempt.output
            if output is None:
                output = attempt.output = AttemptOutput()
            if not output.is_open:
                return
            self._waiting[attempt] = output
            self._waiting_bytes += output.add(content, WAITING_BYTES_MAX - self._waiting_bytes)
            if not self._is_awake:
                # In a context of its own: what the sender logs is not said by the attempt.
                self._loop.call_soon_threadsafe(self._wake, context=Context())
                self._is_awake = True

    def finish(self, attempt: Attempt, on_sent: Callable[[], None]) -> None:
        """Tell when the output of an attempt that is over is sent, or given up."""
        output = attempt.output
        if output is None:
            on_sent()
            return
        with self._lock:
            self._waiting_bytes += output.end()
            if len(output):
                self._waiting[attempt] = output
        if not len(output) and not output.in_flight:
            on_sent()
            return
        output.on_sent = on_sent
        output.give_up_at = boot_clock() + FLUSH_SECONDS_MAX
        self._ending[attempt] = output
        self._all_ended.clear()
        self._hurry.set()
        self._wake()

    def discard(self, attempt: Attempt) -> None:
        """Send nothing more of an attempt."""
        output = attempt.output
        if output is None:
            return
        with self._lock:
            self._waiting.pop(attempt, None)
            self._waiting_bytes -= output.clear()
        self._tell(attempt, output)

    async def close(self, seconds_max: float) -> None:
        """Send what is left of attempts that are over, for so long, and give up the rest."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_ended.wait(), seconds_max)
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        for attempt in list(self._ending):
            self._give_up(attempt, "this worker ends")

    def _wake(self) -> None:
        """Have somebody send what waits, unless somebody does."""
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all(), context=Context())
            self._sender.add_done_callback(self._see_end)

    def _see_end(self, sender: asyncio.Task[None]) -> None:
        if not sender.cancelled() and (error := sender.exception()) is not None:
            self._on_failure(error)

    async def _send_all(self) -> None:
        while True:
            # Not wait_for: of a cancel that meets an end it would keep the end alone.
            with suppress(TimeoutError):
                async with asyncio.timeout(SEND_EVERY_SECONDS):
                    await self._hurry.wait()
            self._hurry.clear()
            batch = self._take()
            while batch and not await self._send(batch):
                await asyncio.sleep(PAUSE_SECONDS)
                batch = self._drop_late(batch)
            with self._lock:
                self._is_awake = bool(self._waiting)
                if not self._is_awake:
                    self._waiting_bytes = 0
                    return

    def _take(self) -> list[_Stretch]:
        """Take what waits, as far as it fits into one request."""
        batch: list[_Stretch] = []
        # Who floods a log gets one stretch at a time, and then pauses like the others.
        pausing: dict[Attempt, AttemptOutput] = {}
        size = 0
        with self._lock:
            while self._waiting and size < BATCH_BYTES_MAX:
                attempt = next(iter(self._waiting))
                output = self._waiting.pop(attempt)
                if not len(output):
                    continue
                offset, content = output.take()
                if len(output):
                    (pausing if output.may_wait else self._waiting)[attempt] = output
                request = LogAppendRequest(*attempt.key, attempt.lease_token, offset, content)
                batch.append(_Stretch(attempt, output, request))
                output.in_flight += 1
                size += len(content)
            self._waiting_bytes -= size
            if self._waiting:
                self._hurry.set()
            self._waiting |= pausing
        return batch

    async def _send(self, batch: list[_Stretch]) -> bool:
        """Send stretches once; False if they have to be sent again."""
        try:
            answer = await self._transport.call(
                "POST",
                "/internal/task-logs",
                LogBatchAnswer,
                body=LogBatchRequest([stretch.request for stretch in batch]),
                seconds_max=SEND_SECONDS_MAX,
            )
        except Unavailable as error:
            log.warning("output of %d attempts waits: %s", len({s.attempt for s in batch}), error)
            return False
        except Refused as error:
            for stretch in batch:
                self._give_up(stretch.attempt, str(error))
            return True
        for stretch in batch:
            stretch.output.in_flight -= 1
        for stretch, result in zip(batch, answer.results, strict=True):
            if result.error is not None:
                self._give_up(stretch.attempt, result.error.message)
            elif not len(stretch.output) and not stretch.output.in_flight:
                self._tell(stretch.attempt, stretch.output)
        return True

    def _drop_late(self, batch: list[_Stretch]) -> list[_Stretch]:
        """Give up what has waited too long after the end of its attempt, or has lost its lease."""
        now = boot_clock()
        for attempt, output in {stretch.attempt: stretch.output for stretch in batch}.items():
            if attempt.stop == "lost" or (output.on_sent is not None and now > output.give_up_at):
                self._give_up(attempt, "the server has not taken it")
        return [stretch for stretch in batch if stretch.output.in_flight]

    def _give_up(self, attempt: Attempt, reason: str) -> None:
        output = attempt.output
        assert output is not None, "only what was written is sent"
        if not output.is_lost:
            log.warning(
                "output of task %s attempt %d is lost: %s",
                *attempt.key,
                reason,
                extra=describe(attempt),
            )
        output.is_lost = True
        output.in_flight = 0
        self.discard(attempt)

    def _tell(self, attempt: Attempt, output: AttemptOutput) -> None:
        on_sent, output.on_sent = output.on_sent, None
        if self._ending.pop(attempt, None) is not None and not self._ending:
            self._all_ended.set()
        if on_sent is not None:
            on_sent()
