"""The worker process: claims what it has room for, runs it, and tells how it ended.

server ── claims ──► attempts ── run ──► outbox ── completions ──► server
             ▲           │ hold                       │ heard
             └─ slots ───┘        keeper's thread ◄───┘ drop
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.client.transport import Transport
from holdfast.errors import LeaseConflict
from holdfast.tracing.current import describe
from holdfast.tracing.switch import find_tracer
from holdfast.worker.claimed.attempt import Attempt, StopMode
from holdfast.worker.claimed.claims import Claims
from holdfast.worker.claimed.completions import Outbox
from holdfast.worker.claimed.function_runner import FunctionRunner
from holdfast.worker.claimed.lease_keeper import Keeper
from holdfast.worker.claimed.process_runner import ProcessRunner
from holdfast.worker.claimed.sqs import Message, SqsInbox
from holdfast.worker.claimed.wake_up_messages import WakeUpMessages
from holdfast.worker.exit_codes import EXIT_UNSTOPPABLE
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.compensated_call import CompensatedCalls
from holdfast.worker.running.function import (
    HANDED_BACK,
    KILLED,
    BadCall,
    Functions,
    Outcome,
    failure,
)
from holdfast.worker.running.spans import begin_run, end_run, go_on
from holdfast.worker.slots import Slot
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost

log = logging.getLogger("holdfast.worker")
CLAIM_WAIT_MS = 10_000
CLAIM_MAX = 500
UNHEARD_MAX = 5000
RECALL_SECONDS_MAX = 1.0
STOP_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker differs from the next one; `folder` belongs to its slot alone.

    With a `mark` (HOLDFAST_NAME=VALUE), programs that carry it in their environment die with the
    worker: a process that is nothing but a worker sets it for those that its functions start.
    """

    server: str
    queues: tuple[str, ...]
    folder: Path
    concurrency: int = 10
    imports: tuple[str, ...] = ()
    isolation: str = "auto"
    name: str = field(default_factory=socket.gethostname)
    drain_seconds: float = 30.0
    mark: str | None = None
    open_inbox: Callable[[], SqsInbox] | None = None


class Worker:
    """One incarnation of a worker."""

    def __init__(self, options: WorkerOptions, slot: Slot) -> None:
        self.options = options
        self.worker_id = f"{options.name}-{uuid4().hex[:12]}"
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        self._watchdog = WatchdogHandle()
        self._transport = Transport(options.server)
        self._log_transport = Transport(options.server)
        self._keeper = Keeper(
            Transport(options.server),
            self.worker_id,
            self._watchdog,
            on_stop=partial(self._pass_on, self._stop_attempt),
            on_drain=partial(self._pass_on, self._drain_once),
            on_failure=partial(self._pass_on, self._fail),
        )
        self._outbox = Outbox(
            self._transport, self.worker_id, on_heard=self._forget, on_failure=self._fail
        )
        self._functions_here = FunctionRunner(options.server, threads_max=options.concurrency)
        self._processes = ProcessRunner(
            options.folder / "attempts", self._log_transport, self._watchdog, lock_fd=slot.fd
        )
        self._claims = Claims(
            self._transport, self.worker_id, options.queues, hand_back=self._hand_back
        )
        self._wake_ups = (
            None if options.open_inbox is None else WakeUpMessages(options.open_inbox())
        )
        self._asked = 0
        self._is_busy = False
        self._met_suspects = False
        self._functions = Functions()
        self._compensated = CompensatedCalls(self._transport)
        self._running: dict[Attempt, asyncio.Task[Outcome]] = {}
        self._problem: BaseException | None = None
        self._changed = asyncio.Event()
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until told to drain, and until what was begun has ended or been handed back.

        Raises what made it impossible to go on; nothing runs any more then, either.
        """
        async with self._open():
            claiming = asyncio.create_task(self._claim_side_by_side())
            claiming.add_done_callback(self._see_claiming_end)
            ends_at = self._loop.time()
            try:
                await self._draining.wait()
                claiming.cancel()
                ends_at = self._loop.time() + self.options.drain_seconds
                await self._let_finish(ends_at)
            finally:
                if not claiming.cancelling():  # a second one would end what follows the first
                    claiming.cancel()
                await self._stop_all(claiming, ends_at)
        if self._problem is not None:
            raise self._problem

    def drain(self) -> None:
        """Take nothing more; a second request stops what still runs."""
        if self._draining.is_set():
            self._stopping.set()
        else:
            log.info("draining: %d attempts still run", len(self._running))
        self._draining.set()
        self._changed.set()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        self._processes.clear()
        self._watchdog.start(self._slot.fd, mark=self.options.mark)
        try:
            async with self._transport, self._log_transport:
                try:
                    self._keeper.start()
                    await self._register()
                    yield
                finally:
                    await self._outbox.close()
                    self._functions_here.close()
                    self._keeper.stop()
                    if self._wake_ups is not None:
                        await self._wake_ups.close()
        finally:
            self._watchdog.stop()

    async def _register(self) -> None:
        """Say who we are; an incarnation whose slot we hold is gone, with all of its processes."""
        taken_over = await self._claims.register(
            self.options.name, self._slot.previous, self._draining
        )
        self._slot.record(self.worker_id)
        log.info("registered as %s, took over %d attempts", self.worker_id, taken_over)

    async def _claim_side_by_side(self) -> None:
        """Claim for half of the room at a time: one claims while what the other got is begun."""
        claimers = [
            asyncio.create_task(self._claim_all(CLAIM_WAIT_MS)),
            asyncio.create_task(self._claim_all(0)),
        ]
        try:
            await asyncio.gather(*claimers)
        finally:
            for claimer in claimers:
                if not claimer.cancelling():  # a second one would end what follows the first
                    claimer.cancel()
            await asyncio.wait(claimers)

    async def _claim_all(self, wait_ms: int) -> None:
        """Claim whenever there is room; without time to wait, only while there is more to have."""
        while not self._draining.is_set():
            room = self._room()
            if room <= 0 or not (wait_ms or self._is_busy):
                await self._wait_for_change()
                continue
            self._asked += room
            try:
                attempts = await self._find_work(room, wait_ms)
            finally:
                self._asked -= room
                self._changed.set()
            self._is_busy = len(attempts) == room
            self._begin(attempts)

    def _room(self) -> int:
        """Count the tasks that one claim may ask for; none beside one that is suspect."""
        if len(self._outbox) >= UNHEARD_MAX or any(a.is_suspect for a in self._running):
            return 0
        if self._met_suspects:
            # More of them may follow: one by one, so that none is fetched to be handed back.
            return 0 if self._asked or self._running else 1
        free = self.options.concurrency - len(self._running) - self._asked
        return min(free, -(-self.options.concurrency // 2), CLAIM_MAX)

    async def _find_work(self, room: int, wait_ms: int) -> list[Attempt]:
        """Claim from the queues, or what wake-ups name, and then look at the queues sometimes."""
        if self._wake_ups is None or not wait_ms:
            return await self._claims.claim(room, wait_ms)
        messages = await self._wake_ups.receive(room)
        attempts: list[Attempt] = []
        try:
            async with asyncio.TaskGroup() as following:
                for message in messages:
                    following.create_task(self._follow(message, attempts))
            if room > len(attempts) and self._wake_ups.is_time_to_look():
                attempts += await self._claims.claim(room - len(attempts), 0)
        except BaseException:
            self._hand_back(attempts)  # a drain: one was not heard of yet, these were
            raise
        return attempts

    async def _follow(self, message: Message, attempts: list[Attempt]) -> None:
        """Claim what a wake-up names; its message is deleted with the attempt, or if refused."""
        assert self._wake_ups is not None, "a wake-up came from nowhere"
        try:
            claimed = await self._claims.claim_by_id(message.task_id)
        except LeaseConflict as error:
            log.debug("a wake-up for task %s was for nothing: %s", message.task_id, error)
            self._wake_ups.delete(message)
            return
        for attempt in claimed:
            self._wake_ups.hold(attempt.key, message)
        attempts += claimed

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        suspects = [attempt for attempt in attempts if attempt.is_suspect]
        self._met_suspects = bool(suspects) or (self._met_suspects and not attempts)
        # One at a time, and alone: the others, of this claim and of the one beside it, may run
        # elsewhere meanwhile.
        spare = suspects if any(a.is_suspect for a in self._running) else suspects[1:]
        self._hand_back(spare)
        for attempt in attempts:
            if attempt not in spare:
                self._keeper.hold(attempt)
                context = copy_context()
                if find_tracer() is None:
                    context.run(go_on, attempt)
                    running = self._run(attempt)
                else:
                    running = self._run_traced(attempt)
                task = asyncio.create_task(running, context=context)
                self._running[attempt] = task
                # Not within the task: one that is cancelled before its first step has no within.
                task.add_done_callback(partial(self._end, attempt))

    def _hand_back(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            attempt.is_over = True
            self._keeper.hold(attempt)
            self._outbox.add(attempt, HANDED_BACK)

    async def _run_traced(self, attempt: Attempt) -> Outcome:
        span = begin_run(attempt, attempt.trace_parent, worker_id=self.worker_id)
        outcome = HANDED_BACK  # unless something comes of it
        try:
            outcome = await self._run(attempt)
        finally:
            end_run(span, outcome)
        return outcome

    async def _run(self, attempt: Attempt) -> Outcome:
        """Run an attempt where it belongs."""
        if attempt.is_suspect:
            await self._wait_until_alone()
        if attempt.job.compensates_job_id is not None:
            try:
                attempt.input = await self._compensated.complete(attempt)
            except BadCall as problem:
                return problem.outcome
        if boot_clock() >= attempt.stop_at:
            return HANDED_BACK
        entrypoint = attempt.job.entrypoint
        if not entrypoint.is_function or attempt.is_suspect or self.options.isolation == "process":
            return await self._processes.run(attempt, self.options.imports)
        try:
            callee = self._functions.find(entrypoint)
        except BadCall as problem:
            return problem.outcome
        if callee.isolation == "process":
            return await self._processes.run(attempt, self.options.imports)
        self._keeper.enter(attempt)
        return await self._functions_here.run(attempt, callee)

    def _end(self, attempt: Attempt, task: asyncio.Task[Outcome]) -> None:
        del self._running[attempt]
        attempt.is_over = True
        attempt.on_stop = attempt.on_renewed = None
        outcome = self._outcome_of(attempt, task)
        if attempt.stop == "lost":
            self._forget(attempt)
        else:
            self._outbox.add(attempt, outcome)
        self._changed.set()

    def _outcome_of(self, attempt: Attempt, task: asyncio.Task[Outcome]) -> Outcome:
        if task.cancelled():
            return HANDED_BACK if attempt.stop is None else KILLED
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, WatchdogLost):
            self._fail(error)
            return HANDED_BACK
        log.critical(
            "task %s attempt %d broke its worker",
            *attempt.key,
            exc_info=error,
            extra=describe(attempt),
        )
        return Outcome("worker_failed", error=f"a fault of the worker: {failure(error).error}")

    async def _wait_until_alone(self) -> None:
        """Wait until this worker holds no other claim: none that runs, none that is untold."""
        while len(self._running) > 1 or len(self._outbox) or self._asked:
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _forget(self, attempt: Attempt) -> None:
        self._keeper.drop(attempt)
        if self._wake_ups is not None:
            self._wake_ups.drop(attempt.key)
        self._changed.set()

    def _pass_on(self, method: Callable[..., None], *arguments: Any) -> None:
        """Bring a call from the keeper's thread to the loop that runs the attempts."""
        self._loop.call_soon_threadsafe(method, *arguments)

    def _stop_attempt(self, attempt: Attempt, mode: StopMode) -> None:
        if attempt.is_over:
            return
        if attempt.on_stop is not None:
            attempt.on_stop(mode)
        else:
            self._running[attempt].cancel()  # it has not begun yet

    def _drain_once(self) -> None:
        """Drain because the server says so; it says so more than once."""
        if not self._draining.is_set():
            self.drain()

    def _see_claiming_end(self, claiming: asyncio.Task[None]) -> None:
        if not claiming.cancelled() and (error := claiming.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Stop everything at once, because this worker cannot go on."""
        log.critical("this worker ends: %s", error, exc_info=error)
        self._problem = self._problem or error
        self._stopping.set()
        self.drain()

    async def _let_finish(self, ends_at: float) -> None:
        """Let what runs come to its end, unless that takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_at):
                while self._running and not self._stopping.is_set():
                    await self._wait_for_change()

    async def _stop_all(self, claiming: asyncio.Task[None], ends_at: float) -> None:
        """Stop what still runs; it is handed back once it is gone, or this process ends."""
        # First what is being claimed: or that claim would find what is handed back here.
        await asyncio.wait([claiming], timeout=RECALL_SECONDS_MAX)
        running = list(self._running.values())
        if running:
            log.warning("handing back %d attempts that still run", len(running))
        for task in running:
            task.cancel()
        await asyncio.wait([*running, claiming], timeout=STOP_SECONDS_MAX)
        patience = STOP_SECONDS_MAX
        if not self._stopping.is_set():
            patience = max(patience, ends_at - self._loop.time())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._outbox.wait_until_heard(), patience)
        if self._running:
            log.critical("%d attempts cannot be stopped: this worker ends", len(self._running))
            os._exit(EXIT_UNSTOPPABLE)
