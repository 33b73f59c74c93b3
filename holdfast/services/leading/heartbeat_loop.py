"""The leader's heartbeats: every worker is called each tick, and at once when there is something.

Workers are prepared for together and called side by side; a call that hangs, refuses or lies is
that worker's affair alone, and there is never a second one beside it.

        due ── prepare (one transaction) ──► call ─┐
         ▲                                   call ─┼─► answers gathered ── store
         └───────── next tick, or a hint ◄─────────┘
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Protocol

from holdfast.errors import LeaseConflict, Refused, Unavailable
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.datasets import refusal_stage
from holdfast.model.work.fence import Fence
from holdfast.operations.ending.complete import Completed, Completion
from holdfast.operations.ending.lost_workers import lose_worker
from holdfast.operations.placed.leadership import Deposed, Term
from holdfast.operations.placed.undelivered import Undelivered, end_undelivered, find_never_offered
from holdfast.operations.placed.worker_heartbeats import (
    Failure,
    Heard,
    Judgement,
    Prepared,
    count_failures,
    list_called,
    list_unfinished_losses,
    prepare,
    store_answers,
)
from holdfast.operations.register import drain
from holdfast.operations.usage import note_usage
from holdfast.services.chores import Chore, take_turn
from holdfast.services.leading.call_queue import ACKNOWLEDGE_SECONDS, CalledWorker, CallQueue
from holdfast.services.leading.lag import LagWatch
from holdfast.services.leading.reach import LOOPBACK_ONLY, Lines, Reach
from holdfast.services.leading.worker_calls import (
    CALL_SECONDS_MAX,
    CallFailed,
    Meaning,
    interpret,
    list_offered,
    list_unacknowledged,
    read_answer,
    send,
    write_request,
)
from holdfast.services.server_spans import (
    begin_deliveries,
    end_deliveries,
    now_ns,
    trace_completions,
)
from holdfast.services.writers import Writers
from holdfast.wire.answers import AttemptName

log = logging.getLogger("holdfast.heartbeats")
TICK_SECONDS = 5.0
REFRESH_SECONDS = 1.0
PREPARE_MAX = 200
CALLS_MAX = 4096
# A worker that has been silent in a call for so long is given nothing more before it answers.
HANG_SECONDS = 1.0
LOSSES_SECONDS = 2.0


class OnHeartbeat(Protocol):
    """Hears of every call that has ended."""

    def __call__(self, seconds: float, *, failed: bool) -> None:
        """Take note of how long it took, and whether it failed."""


def ignore_heartbeat(seconds: float, *, failed: bool) -> None:
    """Take no note."""


class HeartbeatLoop:
    """The heartbeats of one term."""

    def __init__(
        self,
        ledger: Ledger,
        writers: Writers,
        term: Term,
        *,
        on_change: Callable[[], None],
        on_heartbeat: OnHeartbeat = ignore_heartbeat,
        numbers: Iterator[int] | None = None,
        tick: float = TICK_SECONDS,
        call_seconds_max: float = CALL_SECONDS_MAX,
        reach: Reach = LOOPBACK_ONLY,
    ) -> None:
        self._ledger = ledger
        self._writers = writers
        self._term = term
        # A term that broke off goes on with higher numbers: workers refuse those they have seen.
        self._numbers = numbers or count(1)
        self._on_change = on_change
        self._on_heartbeat = on_heartbeat
        self._tick = tick
        self._call_seconds_max = call_seconds_max
        self._reach = reach
        self._loop = asyncio.get_running_loop()
        self._workers: dict[str, CalledWorker] = {}
        self._queue = CallQueue()
        self._calling: dict[str, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()
        self._refresh_at = 0.0
        self._lag = LagWatch()
        slots = asyncio.Semaphore(1)
        self._answers: Batcher[Heard, bool] = Batcher(
            lambda items: store_answers(ledger, term, items), slots=slots
        )
        self._failures: Batcher[Failure, Judgement] = Batcher(
            lambda items: count_failures(ledger, term, items), slots=slots
        )
        self._undelivered: Batcher[Undelivered, bool] = Batcher(
            lambda items: end_undelivered(ledger, term, items), slots=slots
        )

    def ring(self, worker_ids: Iterable[str]) -> None:
        """Call workers as soon as they can be called: there is something to tell or to hear."""
        for worker_id in worker_ids:
            if (worker := self._workers.get(worker_id)) is None:
                self._refresh_at = 0.0
            else:
                worker.is_rung = True
                self._put(worker)
        self._woken.set()

    def list_hanging(self) -> set[str]:
        """List the workers that have been silent in a call for a while."""
        called_before = self._loop.time() - HANG_SECONDS
        known = (self._workers.get(worker_id) for worker_id in self._calling)
        return {w.worker_id for w in known if w is not None and w.called_at < called_before}

    async def run(self) -> None:
        """Call workers until cancelled. Raises Deposed when another server leads."""
        beside = [
            asyncio.create_task(self._lag.watch()),
            asyncio.create_task(self._finish_losses()),
        ]
        try:
            async with self._reach.open_lines(self._call_seconds_max, CALLS_MAX) as lines:
                try:
                    while True:
                        await self._beat(lines)
                finally:
                    await _end_all([*beside, *self._calling.values()])
        finally:
            for task in beside:
                task.cancel()

    async def _beat(self, lines: Lines) -> None:
        """Begin every call that is due, and sleep until the next one is."""
        try:
            if self._loop.time() >= self._refresh_at:
                await self._refresh()
            if due := self._queue.take(self._loop.time(), PREPARE_MAX):
                await self._begin(lines, due)
        except Deposed:
            raise
        except Unavailable as error:
            log.warning("workers will be called again: %s", error)
            await asyncio.sleep(REFRESH_SECONDS)
        # Not wait_for: of a cancel that meets a ring it would keep the ring alone.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience()):
                await self._woken.wait()
        self._woken.clear()

    async def _refresh(self) -> None:
        """Learn of new workers, and forget those that are lost."""
        listed = await list_called(self._ledger)
        before = self._workers
        self._workers = {
            worker_id: before.get(worker_id) or CalledWorker(worker_id) for worker_id in listed
        }
        self._queue.drop(before[worker_id] for worker_id in before.keys() - self._workers.keys())
        for worker_id in self._workers.keys() - before.keys():
            self._put(self._workers[worker_id])
        self._refresh_at = self._loop.time() + REFRESH_SECONDS

    def _put(self, worker: CalledWorker) -> None:
        """Have a worker called when it is due, unless a call is under way: then after that."""
        if worker.worker_id not in self._calling:
            self._queue.put(worker)

    def _patience(self) -> float:
        """Say how long nothing will be due."""
        return max(min(self._refresh_at, self._queue.next_at()) - self._loop.time(), 0.0)

    async def _begin(self, lines: Lines, due: list[CalledWorker]) -> None:
        now = self._loop.time()
        for worker in due:
            worker.is_rung = False
            worker.called_at, worker.next_at = now, now + self._tick
        try:
            prepared = await prepare(self._ledger, self._term, [worker.worker_id for worker in due])
        except Unavailable:
            for worker in due:
                worker.is_rung = True
                self._put(worker)
            raise
        known = {worker.worker_id: worker for worker in due}
        for call in prepared:
            worker = known[call.worker_id]
            self._queue.drop([worker])  # if it was rung for meanwhile, it is called after this call
            task = asyncio.create_task(self._call(lines, worker, call))
            self._calling[call.worker_id] = task
            task.add_done_callback(partial(self._end_call, call.worker_id))
        for worker in due:
            self._put(worker)

    def _end_call(self, worker_id: str, task: asyncio.Task[None]) -> None:
        self._calling.pop(worker_id, None)
        if worker_id in self._workers:
            self._put(self._workers[worker_id])
        self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the heartbeat of %s broke off", worker_id, exc_info=error)

    async def _call(self, lines: Lines, worker: CalledWorker, prepared: Prepared) -> None:
        """Call one worker, and store what its answer means."""
        began_at, number = self._loop.time(), next(self._numbers)
        spans = begin_deliveries(prepared)
        new = worker.offer(list_offered(prepared), list_unacknowledged(prepared))
        try:
            epoch, acknowledged, unknown = self._term.epoch, worker.acknowledged, worker.unknown
            body = write_request(
                prepared,
                epoch,
                number,
                acknowledged=acknowledged,
                unknown=unknown,
                spans={fence: str(span.context) for fence, span in spans.items()},
            )
            line = lines.to(prepared.address)
            text = await send(line, prepared, body, reach=self._reach)
            answer = read_answer(text, worker.worker_id, epoch=epoch, number=number)
            meaning = interpret(prepared, answer)
        except CallFailed as failure:
            end_deliveries(spans, failure)
            self._on_heartbeat(self._loop.time() - began_at, failed=True)
            if failure.was_not_sent:
                worker.take_back(new)
            await self._fail(worker, failure)
            return
        end_deliveries(spans)
        worker.unknown = meaning.unknown
        try:
            await self._store(worker, number, meaning)
        except Unavailable as error:
            log.warning("the answer of %s will be asked for again: %s", worker.worker_id, error)
            return
        self._on_heartbeat(self._loop.time() - began_at, failed=False)
        if worker.unknown - unknown or worker.unnamed:
            worker.is_rung = True  # or it would keep them until the next tick
        elif set(worker.acknowledged) - set(acknowledged):
            worker.acknowledge_by(self._loop.time() + ACKNOWLEDGE_SECONDS)

    async def _store(self, worker: CalledWorker, number: int, meaning: Meaning) -> None:
        """Record what an answer means, and after that, that it was heard."""
        if meaning.drains:  # first: what it hands back would be placed there once more
            await drain(self._ledger, worker.worker_id, actor=worker.worker_id, is_own=True)
        await note_usage(self._ledger, meaning.usage)
        _log_errors(worker, await self._writers.report(meaning.starts))
        worker.acknowledged = await self._complete(worker, meaning)
        heard = Heard(worker.worker_id, number, meaning.running)
        [is_known] = await self._answers.call([heard])
        _log_errors(worker, [is_known])
        # It is open again: its next failure closes it, though the tick has counted one.
        worker.count_at = 0.0
        await self._end_undelivered(worker, worker.note_unnamed(meaning.unnamed))
        if meaning.starts or meaning.completions or not worker.has_answered:
            worker.has_answered = is_known is True
            self._on_change()

    async def _complete(self, worker: CalledWorker, meaning: Meaning) -> list[AttemptName]:
        """Record the ends that an answer reports; returns those that need not be reported again."""
        began_ns = now_ns()
        ends = await self._writers.complete(meaning.completions)
        trace_completions(self._ledger.specs, meaning.reported, ends, began_ns=began_ns)
        _log_errors(worker, ends)
        # What says nothing that could be kept (too large a result, say) has failed by that.
        unfit = [
            Completion(
                item.fence,
                "failed",
                error=str(end),
                error_class="PermanentError" if item.outputs else "Unfit",
                stage=refusal_stage(end),
            )
            for item, end in zip(meaning.completions, ends, strict=True)
            if isinstance(end, Refused) and not isinstance(end, LeaseConflict)
        ]
        stored_again = await self._writers.complete(unfit)
        _log_errors(worker, stored_again)
        instead = {item.fence: end for item, end in zip(unfit, stored_again, strict=True)}
        # A refusal is as final as a record; what could not be stored is asked for again.
        return [
            AttemptName(entry.task_id, item.fence.attempt)
            for entry, item, end in zip(meaning.reported, meaning.completions, ends, strict=False)
            if isinstance(instead.get(item.fence, end), Completed | Refused)
        ]

    async def _end_undelivered(self, worker: CalledWorker, fences: frozenset[Fence]) -> None:
        """Have attempts placed again that are not on their worker, and cannot come there."""
        if not fences:
            return
        items = [Undelivered(worker.worker_id, fence) for fence in sorted(fences)]
        log.warning("%d attempts did not arrive on %s", len(items), worker.worker_id)
        _log_errors(worker, await self._undelivered.call(items))
        worker.unnamed -= fences
        self._on_change()

    async def _end_never_offered(self, worker: CalledWorker) -> None:
        """Have attempts placed again that no call can have brought; none is under way."""
        assert worker.offered is not None, "a call offers before it fails"
        try:
            never = await find_never_offered(self._ledger, worker.worker_id, worker.offered)
        except Unavailable as error:
            _log_errors(worker, [error])
            return
        await self._end_undelivered(worker, never)

    async def _fail(self, worker: CalledWorker, failure: CallFailed) -> None:
        """Count a failed heartbeat, once a tick, unless it was this server's own fault.

        What no call can have brought is placed again, after the failure counts: elsewhere.
        """
        worker_id, reason = worker.worker_id, str(failure)
        was_late = self._lag.was_late_since(worker.called_at)
        if failure.is_ours or was_late:
            excuse = "was late" if was_late else "lacks something"
            log.warning("%s is not blamed, this server %s: %s", worker_id, excuse, reason)
            return
        log.warning("the heartbeat of %s failed: %s", worker_id, reason)
        if worker.called_at < worker.count_at:
            await self._end_never_offered(worker)
            return
        [judged] = await self._failures.call([Failure(worker_id, reason)])
        if isinstance(judged, Exception):
            _log_errors(worker, [judged])
            return
        worker.count_at = worker.called_at + self._tick
        await self._end_never_offered(worker)
        if judged.health == "dead":
            await self._lose(worker_id, judged.cause)

    async def _lose(self, worker_id: str, cause: str) -> None:
        """End what a dead worker ran."""
        log.error("worker %s is dead: %s", worker_id, cause)
        self._workers.pop(worker_id, None)
        await self._end_attempts(worker_id, cause)

    async def _end_attempts(self, worker_id: str, cause: str) -> None:
        end = partial(lose_worker, self._ledger, worker_id, cause)
        await take_turn(Chore(f"end what {worker_id} ran", LOSSES_SECONDS, end))

    async def _finish_losses(self) -> None:
        """End what workers ran that are lost, where that was not possible or a leader died first.

        Beside the calls: a row that somebody holds must not keep workers from being called.
        """

        async def finish() -> int:
            lost = await list_unfinished_losses(self._ledger)
            for worker_id, cause in lost:
                await self._end_attempts(worker_id, cause)
            return len(lost)

        while True:
            await take_turn(Chore("finish losses", LOSSES_SECONDS, finish))
            await asyncio.sleep(LOSSES_SECONDS)


def _log_errors(worker: CalledWorker, answers: Sequence[object]) -> None:
    """Tell of what could not be written; it is tried again with the next answer."""
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    for error in {str(error): error for error in errors}.values():
        if isinstance(error, Unavailable | Refused):
            log.warning("not all of a heartbeat of %s is stored: %s", worker.worker_id, error)
        else:
            log.error("a heartbeat of %s cannot be stored", worker.worker_id, exc_info=error)


async def _end_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
