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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from holdfast.client.transport import Transport
from holdfast.errors import Invalid, LeaseConflict, NotFound, Refused, Unavailable
from holdfast.wire.answers import ClaimedTask, TaskClaimAnswer, WorkerRegisterAnswer
from holdfast.wire.requests import TaskClaimRequest, WorkerRegisterRequest
from holdfast.worker.attempt import Attempt, JobCache, StopMode
from holdfast.worker.clock import boot_clock
from holdfast.worker.function import HANDED_BACK, KILLED, BadCall, Functions, Outcome, failure
from holdfast.worker.guard import Guard, GuardLost
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
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0
STOP_SECONDS_MAX = 5.0
EXIT_UNSTOPPABLE = 71


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
        self._log_transport = Transport(options.server)
        self._keeper = Keeper(
            Transport(options.server),
            self.worker_id,
            self._guard,
            on_stop=partial(self._pass_on, self._stop_attempt),
            on_drain=partial(self._pass_on, self._drain_once),
            on_failure=partial(self._pass_on, self._fail),
        )
        self._outbox = Outbox(
            self._transport, self.worker_id, on_heard=self._forget, on_failure=self._fail
        )
        self._inside = InsideRunner(options.server, threads_max=options.concurrency)
        self._outside = OutsideRunner(
            options.folder / "attempts", self._log_transport, self._guard, lock_fd=slot.fd
        )
        self._jobs = JobCache()
        self._functions = Functions()
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
            claiming = asyncio.create_task(self._claim_all())
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
        self._outside.clear()
        self._guard.start(self._slot.fd, mark=self.options.mark)
        try:
            async with self._transport, self._log_transport:
                try:
                    self._keeper.start()
                    await self._register()
                    yield
                finally:
                    await self._outbox.close()
                    self._inside.close()
                    self._keeper.stop()
        finally:
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
        except (NotFound, Invalid) as error:
            if body.replaces is None:
                raise
            # Its rows are gone, or it was somebody else's: then there is nothing to take over.
            log.info("does not replace %s: %s", body.replaces, error)
            body = msgspec.structs.replace(body, replaces=None)
            answer = await self._insist_on_registering(body)
        self._slot.record(self.worker_id)
        log.info("registered as %s, took over %d attempts", self.worker_id, answer.taken_over)

    async def _insist_on_registering(self, body: WorkerRegisterRequest) -> WorkerRegisterAnswer:
        pause = PAUSE_SECONDS
        while True:
            try:
                return await self._transport.call(
                    "POST",
                    "/internal/worker-register",
                    WorkerRegisterAnswer,
                    body=body,
                    seconds_max=CALL_SECONDS_MAX,
                )
            except (NotFound, Invalid):
                raise
            except (Unavailable, Refused) as error:
                if self._draining.is_set():
                    raise
                log.warning("cannot register yet: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _claim_all(self) -> None:
        while not self._draining.is_set():
            room = self._room()
            if room > 0:
                await self._claim(room)
            else:
                await self._wait_for_change()

    def _room(self) -> int:
        """Count the tasks that could start this moment; none beside one that is suspect."""
        if len(self._outbox) >= UNHEARD_MAX or any(a.is_suspect for a in self._running):
            return 0
        return min(self.options.concurrency - len(self._running), CLAIM_MAX)

    async def _claim(self, room: int) -> None:
        body = TaskClaimRequest(
            self.worker_id,
            queues=list(self.options.queues),
            max_tasks=room,
            wait_ms=CLAIM_WAIT_MS,
            idempotency_key=uuid4().hex,
        )
        try:
            attempts = await self._insist_on_claiming(body)
        except asyncio.CancelledError:
            # Perhaps tasks were claimed all the same: the same key brings them to light.
            body = msgspec.structs.replace(body, wait_ms=0)
            with suppress(Unavailable, Refused):
                self._hand_back(await self._call_for_claims(body, STOP_SECONDS_MAX))
            raise
        self._begin(attempts)

    async def _insist_on_claiming(self, body: TaskClaimRequest) -> list[Attempt]:
        """Claim once; a request whose answer is lost is repeated under the same key."""
        pause = PAUSE_SECONDS
        while True:
            try:
                seconds_max = CLAIM_WAIT_MS / 1000 + CALL_SECONDS_MAX
                return await self._call_for_claims(body, seconds_max)
            except LeaseConflict as error:
                raise Replaced(str(error)) from error
            except Invalid:
                raise
            except (Unavailable, Refused) as error:
                log.warning("cannot claim now: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _call_for_claims(self, body: TaskClaimRequest, seconds_max: float) -> list[Attempt]:
        sent_at = boot_clock()
        answer = await self._transport.call(
            "POST", "/internal/task-claim", TaskClaimAnswer, body=body, seconds_max=seconds_max
        )
        return self._read_claims(answer.claims, sent_at + answer.waited_ms / 1000)

    def _read_claims(self, claims: list[ClaimedTask], sent_at: float) -> list[Attempt]:
        attempts = []
        for claim in claims:
            try:
                attempts.append(Attempt(claim, self._jobs.decode(claim.job), sent_at))
            except msgspec.ValidationError as error:
                # Of a newer kind than we know: its lease runs out, the others are run.
                log.error("task %s cannot be read, and is left: %s", claim.task_id, error)
        return attempts

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        suspects = [attempt for attempt in attempts if attempt.is_suspect]
        # One at a time, and alone: the others may run elsewhere meanwhile.
        self._hand_back(suspects[1:])
        for attempt in attempts:
            if attempt not in suspects[1:]:
                self._keeper.hold(attempt)
                task = asyncio.create_task(self._run(attempt))
                self._running[attempt] = task
                # Not within the task: one that is cancelled before its first step has no within.
                task.add_done_callback(partial(self._end, attempt))

    def _hand_back(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            attempt.is_over = True
            self._keeper.hold(attempt)
            self._outbox.add(attempt, HANDED_BACK)

    async def _run(self, attempt: Attempt) -> Outcome:
        """Run an attempt where it belongs."""
        if attempt.is_suspect:
            await self._wait_until_alone()
        if boot_clock() >= attempt.stop_at:
            return HANDED_BACK
        entrypoint = attempt.job.entrypoint
        is_function = entrypoint.command is None and entrypoint.shell is None
        if not is_function or attempt.is_suspect or self.options.isolation == "process":
            return await self._outside.run(attempt, self.options.imports)
        try:
            callee = self._functions.find(entrypoint)
        except BadCall as problem:
            return problem.outcome
        if callee.isolation == "process":
            return await self._outside.run(attempt, self.options.imports)
        self._keeper.enter(attempt)
        return await self._inside.run(attempt, callee)

    def _end(self, attempt: Attempt, task: asyncio.Task[Outcome]) -> None:
        del self._running[attempt]
        attempt.is_over = True
        attempt.on_stop = attempt.on_renewed = None
        outcome = self._outcome_of(attempt, task)
        if attempt.stop == "lost":
            self._keeper.drop(attempt)
        else:
            self._outbox.add(attempt, outcome)
        self._changed.set()

    def _outcome_of(self, attempt: Attempt, task: asyncio.Task[Outcome]) -> Outcome:
        if task.cancelled():
            return HANDED_BACK if attempt.stop is None else KILLED
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, GuardLost):
            self._fail(error)
            return HANDED_BACK
        log.critical("task %s attempt %d broke its worker", *attempt.key, exc_info=error)
        return Outcome("worker_failed", error=f"a fault of the worker: {failure(error).error}")

    async def _wait_until_alone(self) -> None:
        """Wait until this worker holds no other claim: none that runs, none that is untold."""
        while len(self._running) > 1 or len(self._outbox):
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _forget(self, attempt: Attempt) -> None:
        self._keeper.drop(attempt)
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
