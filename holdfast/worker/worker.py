"""The worker process: claims what it has room for, runs it, and tells how it ended.

server ── claims ──► attempts ── run ──► outbox ── completions ──► server
             ▲           │ hold                       │ heard
             └─ slots ───┘        keeper's thread ◄───┘ drop
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from holdfast.client.context import Connection
from holdfast.client.transport import Transport
from holdfast.errors import LeaseConflict, NotFound, Refused, Unavailable
from holdfast.wire.answers import TaskClaimAnswer, WorkerRegisterAnswer
from holdfast.wire.requests import TaskClaimRequest, WorkerRegisterRequest
from holdfast.worker.attempt import Attempt, JobCache, StopMode
from holdfast.worker.clock import boot_clock
from holdfast.worker.function import BadCall, Functions, Outcome
from holdfast.worker.guard import Guard
from holdfast.worker.inside import InsideRunner
from holdfast.worker.keeper import Keeper
from holdfast.worker.outbox import Outbox
from holdfast.worker.outside import OutsideRunner
from holdfast.worker.slots import Slot

log = logging.getLogger("holdfast.worker")
CLAIM_WAIT_MS = 10_000
CLAIM_MAX = 500
CALL_SECONDS_MAX = 15.0
UNHEARD_MAX = 5000
PAUSE_SECONDS_MAX = 2.0
STOP_SECONDS_MAX = 5.0
HANDED_BACK = Outcome("handed_back")


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker differs from the next one."""

    server: str
    queues: tuple[str, ...]
    folder: Path
    concurrency: int = 10
    imports: tuple[str, ...] = ()
    isolation: str = "auto"
    name: str = field(default_factory=socket.gethostname)
    drain_seconds: float = 30.0


class Replaced(Exception):
    """The server says that another incarnation has taken this one's place."""


class Worker:
    """One incarnation of a worker."""

    def __init__(self, options: WorkerOptions, slot: Slot) -> None:
        self.options = options
        self.worker_id = f"{options.name}-{uuid4().hex[:12]}"
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        self._guard = Guard()
        self._transport = Transport(options.server)
        self._keeper = Keeper(
            Transport(options.server),
            self.worker_id,
            self._guard,
            on_stop=self._pass_on_stop,
            on_drain=self._pass_on_drain,
        )
        self._outbox = Outbox(self._transport, self.worker_id, self._keeper.drop)
        connection = Connection(self._keeper.transport, self._keeper.loop_thread)
        self._inside = InsideRunner(options.server, connection, threads_max=options.concurrency)
        self._outside = OutsideRunner(
            options.server, options.folder / "attempts", self._keeper, self._guard, lock_fd=slot.fd
        )
        self._jobs = JobCache()
        self._functions = Functions()
        self._running: dict[Attempt, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until told to drain, and until what was begun has ended or been handed back."""
        async with self._open():
            claiming = asyncio.create_task(self._claim_all())
            draining = asyncio.create_task(self._draining.wait())
            try:
                await asyncio.wait({claiming, draining}, return_when=asyncio.FIRST_COMPLETED)
                if claiming.done():
                    claiming.result()
                await self._finish()
            finally:
                for task in (claiming, draining):
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

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
        self._guard.start(self._slot.fd)
        async with self._transport:
            self._keeper.start()
            try:
                await self._register()
                yield
            finally:
                await self._outbox.close()
                self._inside.close()
                self._keeper.stop()
                self._guard.stop()

    async def _register(self) -> None:
        """Say who we are; an incarnation whose slot we hold is gone, with all of its processes."""
        options = self.options
        body = WorkerRegisterRequest(
            self.worker_id,
            options.name,
            socket.gethostname(),
            list(options.queues),
            self._slot.previous,
        )
        try:
            answer = await self._insist_on_registering(body)
        except (NotFound, Refused) as error:
            if body.replaces is None:
                raise
            # Its rows are gone, or it was somebody else's: then there is nothing to take over.
            log.info("does not replace %s: %s", body.replaces, error)
            body = WorkerRegisterRequest(body.worker_id, body.name, body.host, body.queues)
            answer = await self._insist_on_registering(body)
        self._slot.record(self.worker_id)
        log.info("registered as %s, took over %d attempts", self.worker_id, answer.taken_over)

    async def _insist_on_registering(self, body: WorkerRegisterRequest) -> WorkerRegisterAnswer:
        pause = 0.1
        while True:
            try:
                return await self._transport.call(
                    "POST",
                    "/internal/worker-register",
                    WorkerRegisterAnswer,
                    body=body,
                    seconds_max=CALL_SECONDS_MAX,
                )
            except Unavailable as error:
                if self._draining.is_set():
                    raise
                log.warning("cannot register yet: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _claim_all(self) -> None:
        while not self._draining.is_set():
            room = self._room()
            if room <= 0:
                self._changed.clear()
                await self._changed.wait()
                continue
            await self._claim(room)

    def _room(self) -> int:
        """Count the tasks that could start this moment; none beside one that is suspect."""
        if len(self._outbox) >= UNHEARD_MAX or any(a.is_suspect for a in self._running):
            return 0
        return min(self.options.concurrency - len(self._running), CLAIM_MAX)

    async def _claim(self, room: int) -> None:
        """Claim once; a request whose answer is lost is repeated under the same key."""
        body = TaskClaimRequest(
            self.worker_id,
            queues=list(self.options.queues),
            max_tasks=room,
            wait_ms=CLAIM_WAIT_MS,
            idempotency_key=uuid4().hex,
        )
        pause = 0.05
        while not self._draining.is_set():
            sent_at = boot_clock()
            try:
                answer = await self._transport.call(
                    "POST",
                    "/internal/task-claim",
                    TaskClaimAnswer,
                    body=body,
                    seconds_max=CLAIM_WAIT_MS / 1000 + CALL_SECONDS_MAX,
                )
            except LeaseConflict as error:
                raise Replaced(str(error)) from error
            except Unavailable as error:
                log.warning("cannot claim now: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
                continue
            self._begin(answer, sent_at + answer.waited_ms / 1000)
            return

    def _begin(self, answer: TaskClaimAnswer, sent_at: float) -> None:
        attempts = [Attempt(c, self._jobs.decode(c.job), sent_at) for c in answer.claims]
        suspects = [attempt for attempt in attempts if attempt.is_suspect]
        for attempt in attempts:
            self._keeper.hold(attempt)
            if attempt.is_suspect and attempt is not suspects[0]:
                # One at a time, and alone: the others may run elsewhere meanwhile.
                self._outbox.add(attempt, HANDED_BACK)
                attempt.is_over = True
                continue
            self._running[attempt] = asyncio.create_task(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        try:
            outcome = await self._run_where_it_belongs(attempt)
        except asyncio.CancelledError:
            # Stopped by the end of a drain, before or while it ran: somebody else may have it.
            outcome = HANDED_BACK
        attempt.is_over = True
        if attempt.stop == "lost":
            self._keeper.drop(attempt)
        else:
            self._outbox.add(attempt, outcome)
        del self._running[attempt]
        self._changed.set()

    async def _run_where_it_belongs(self, attempt: Attempt) -> Outcome:
        if attempt.is_suspect:
            await self._wait_until_alone(attempt)
        if attempt.expires_at - attempt.margin <= boot_clock():
            return HANDED_BACK
        entrypoint = attempt.job.entrypoint
        if entrypoint.command is not None or entrypoint.shell is not None:
            return await self._run_outside(attempt)
        if attempt.is_suspect or self.options.isolation == "process":
            return await self._run_outside(attempt)
        try:
            callee = self._functions.find(entrypoint)
        except BadCall as problem:
            return problem.outcome
        if callee.isolation == "process":
            return await self._run_outside(attempt)
        attempt.started_at = boot_clock()
        return await self._inside.run(attempt, callee)

    async def _run_outside(self, attempt: Attempt) -> Outcome:
        attempt.in_process = False
        attempt.started_at = boot_clock()
        return await self._outside.run(attempt, self.options.imports)

    async def _wait_until_alone(self, suspect: Attempt) -> None:
        while any(attempt is not suspect for attempt in self._running):
            self._changed.clear()
            await self._changed.wait()

    def _pass_on_stop(self, attempt: Attempt, mode: StopMode) -> None:
        """Bring a request to stop from the keeper's thread to the loop that runs the attempt."""
        self._loop.call_soon_threadsafe(self._stop_attempt, attempt, mode)

    def _pass_on_drain(self) -> None:
        self._loop.call_soon_threadsafe(self._drain_once)

    def _drain_once(self) -> None:
        """Drain because the server says so; it says so more than once."""
        if not self._draining.is_set():
            self.drain()

    def _stop_attempt(self, attempt: Attempt, mode: StopMode) -> None:
        if attempt.is_over:
            return
        if attempt.on_stop is not None:
            attempt.on_stop(mode)
        elif mode != "soft" and attempt in self._running:
            self._running[attempt].cancel()

    async def _finish(self) -> None:
        """Let what runs come to its end; what takes longer than its time is handed back."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.options.drain_seconds):
                while self._running and not self._stopping.is_set():
                    self._changed.clear()
                    await self._changed.wait()
        left = list(self._running.items())
        if left:
            log.warning("handing back %d attempts that still run", len(left))
            for _, task in left:
                task.cancel()
            await asyncio.wait([task for _, task in left], timeout=STOP_SECONDS_MAX)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._outbox.wait_until_heard(), STOP_SECONDS_MAX)
        if self._running:
            log.critical("%d attempts cannot be stopped: this worker ends", len(self._running))
            os._exit(1)
