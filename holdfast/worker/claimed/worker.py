"""The worker process of queue work: claims what it has room for, runs it, and reports how it ended.

server ── claims ──► attempts ── run ──► completions ──► server
             ▲           │ hold                │ acknowledged
             └─ room ────┘  keeper's thread ◄──┘ drop
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from holdfast.client.transport import Transport
from holdfast.model.addresses import without_login
from holdfast.model.outage import Outage
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.tracing.current import describe
from holdfast.worker.claimed.attempt import Attempt, StopMode
from holdfast.worker.claimed.claimer import Claimer
from holdfast.worker.claimed.claims import Claims
from holdfast.worker.claimed.completions import Completions
from holdfast.worker.claimed.function_output import FunctionOutputs
from holdfast.worker.claimed.lease_keeper import Keeper
from holdfast.worker.claimed.options import WorkerOptions
from holdfast.worker.claimed.output_routing import routed
from holdfast.worker.claimed.process_runner import LAST_WORDS_SECONDS_MAX, ProcessRunner
from holdfast.worker.claimed.running_attempts import RunningAttempts
from holdfast.worker.claimed.wake_up_messages import WakeUpMessages
from holdfast.worker.exit_codes import EXIT_UNSTOPPABLE
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.slots import Slot
from holdfast.worker.watchdog_handle import WatchdogHandle

log = logging.getLogger("holdfast.worker")
RECALL_SECONDS_MAX = 1.0
STOP_SECONDS_MAX = 5.0


class Worker:
    """One incarnation of a worker."""

    def __init__(self, options: WorkerOptions, slot: Slot) -> None:
        self.options = options
        self.credential = WorkerCredential.make(options.name)
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        self._watchdog = WatchdogHandle()
        outage = Outage(f"the server at {without_login(options.server)}")
        self._transport, self._log_transport, renewing = (
            Transport(options.server, outage=outage) for _ in range(3)
        )
        for transport in (self._transport, renewing):
            transport.show(self.credential)
        self._keeper = Keeper(
            renewing,
            self.worker_id,
            self._watchdog,
            code=options.code,
            on_stop=partial(self._on_loop, self._stop_attempt),
            on_stuck=partial(self._on_loop, self._note_stuck),
            on_drain=partial(self._on_loop, self._drain_once),
            on_failure=partial(self._on_loop, self._fail),
        )
        self._completions = Completions(
            self._transport,
            self.worker_id,
            on_acknowledged=self._forget,
            on_failure=self._fail,
            on_idle=self._note_idle,
        )
        self._processes = ProcessRunner(
            options.folder / "attempts",
            self._log_transport,
            self._watchdog,
            lock_fd=slot.fd,
            hides_devices=options.book is not None and options.book.has_devices,
            uids=options.uids,
        )
        self._outputs = FunctionOutputs(self._log_transport, on_failure=self._fail)
        self._running = RunningAttempts(
            options,
            self.worker_id,
            transport=self._transport,
            keeper=self._keeper,
            completions=self._completions,
            processes=self._processes,
            outputs=self._outputs,
            on_lost=self._forget,
            on_failure=self._fail,
        )
        self._claims = self._make_claims(options)
        self._wake_ups = options.open_inbox and WakeUpMessages(options.open_inbox())
        self._claimer = Claimer(
            self._claims, self._running, self._completions, wake_ups=self._wake_ups
        )
        self._leaving: asyncio.Task[None] | None = None
        self._problem: BaseException | None = None
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        self.registered = asyncio.Event()  # from then on it may speak in its own name

    def _make_claims(self, options: WorkerOptions) -> Claims:
        return Claims(
            self._transport,
            self.credential,
            options.queues,
            capacity=options.capacity,
            book=None if options.book is None else options.book.name,
            # Not what gets a process of its own first: that takes its time, and may have to wait.
            starts_at_once=options.isolation != "process",
            hand_back=self._running.hand_back,
        )

    async def run(self) -> None:
        """Work until told to drain, and until what was begun has ended or been handed back.

        Raises what made it impossible to go on; nothing runs any more then, either.
        """
        async with self._open():
            claiming = asyncio.create_task(self._claimer.run())
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

    @property
    def worker_id(self) -> str:
        """The name of this incarnation."""
        return self.credential.worker_id

    @property
    def is_draining(self) -> bool:
        """Whether it has been asked to leave."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Take nothing more; a second request stops what still runs."""
        if self._draining.is_set():
            self._stopping.set()
        else:
            log.info("draining: %d attempts still run", len(self._running))
        self._running.is_leaving = True
        self._draining.set()
        self._running.changes.notify()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        self._processes.clear()
        self._watchdog.start(self._slot.fd, mark=self.options.mark)
        try:
            async with self._transport, self._log_transport:
                try:
                    await self._register()
                    self._keeper.start()
                    with routed():
                        yield
                finally:
                    await self._completions.close()
                    self._running.close()
                    self._keeper.stop()
                    if self._wake_ups is not None:
                        await self._wake_ups.close()
        finally:
            self._watchdog.stop()

    async def _register(self) -> None:
        """Say who we are; an incarnation whose slot we hold is gone, with all of its processes."""
        taken_over = await self._claims.register(
            self.options.name, self._slot.previous, self._draining, crash=self.options.crash
        )
        self._slot.record(self.credential)
        self.registered.set()
        self.options.code.note_worker(self.worker_id)
        log.info("registered as %s, took over %d attempts", self.worker_id, taken_over)

    def _forget(self, attempt: Attempt) -> None:
        self._keeper.drop(attempt)
        if self._wake_ups is not None:
            self._wake_ups.drop(attempt.key)
        self._running.changes.notify()

    def _note_idle(self) -> None:
        """See whether to claim: no completion is under way that would take a claim along."""
        self._running.changes.notify()

    def _on_loop(self, method: Callable[..., None], *arguments: Any) -> None:
        """Bring a call from the keeper's thread to the loop that runs the attempts."""
        self._loop.call_soon_threadsafe(method, *arguments)

    def _stop_attempt(self, attempt: Attempt, mode: StopMode) -> None:
        self._running.stop(attempt, mode)

    def _drain_once(self) -> None:
        """Drain because the server says so; it says so more than once."""
        if not self._draining.is_set():
            self.drain()

    def _note_stuck(self, attempt: Attempt) -> None:
        """Take nothing more, and leave soon, because code that must go does not."""
        if attempt.is_over:
            return
        log.critical(
            "task %s attempt %d does not stop: this worker ends unless it does",
            *attempt.key,
            extra=describe(attempt),
        )
        self._running.stuck.add(attempt)
        self._running.changes.notify()
        if self._leaving is None or self._leaving.done():
            self._leaving = asyncio.create_task(self._leave_stuck(attempt))

    async def _leave_stuck(self, attempt: Attempt) -> None:
        """Let the neighbours of what is stuck finish, hand the rest back, and end this process."""
        patience = attempt.kill_at - boot_clock() - STOP_SECONDS_MAX
        await self._running.wait_for_others(self._loop.time() + patience)
        if self._running.stuck:
            self._stopping.set()
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
                while len(self._running) and not self._stopping.is_set():
                    await self._running.changes.wait()

    async def _stop_all(self, claiming: asyncio.Task[None], ends_at: float) -> None:
        """Stop what still runs; it is handed back once it is gone, or this process ends."""
        # First what is being claimed: or that claim would find what is handed back here.
        await asyncio.wait([claiming], timeout=RECALL_SECONDS_MAX)
        if len(self._running):
            log.warning("handing back %d attempts that still run", len(self._running))
        self._running.interrupt_all()
        stops_at = self._loop.time() + STOP_SECONDS_MAX
        await self._running.wait_for_others(stops_at)
        await asyncio.wait([claiming], timeout=max(stops_at - self._loop.time(), 0))
        patience = STOP_SECONDS_MAX
        if not self._stopping.is_set():
            patience = max(patience, ends_at - self._loop.time())
        await self._outputs.close(LAST_WORDS_SECONDS_MAX)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._completions.wait_until_acknowledged(), patience)
        if len(self._running):
            log.critical("%d attempts cannot be stopped: this worker ends", len(self._running))
            os._exit(EXIT_UNSTOPPABLE)
