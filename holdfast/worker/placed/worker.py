"""A worker of placed work: called by the server, it runs what is wanted of it and nothing else.

call ── orders ──► attempts ── runner ──► shims (outlive this process)
answer ◄── what is here, what ended and was not acknowledged
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4
from weakref import WeakSet

import msgspec

from holdfast.client.transport import Transport
from holdfast.errors import IllegalMove, Invalid, NotFound, Refused, Unavailable
from holdfast.model.resources import AttributeValue, Capacity
from holdfast.model.shapes import read_tolerantly
from holdfast.tracing.current import describe
from holdfast.wire.answers import WorkerRegisterAnswer
from holdfast.wire.cluster import (
    PlacedJob,
    TaskToRun,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.wire.requests import AdoptedAttempt, WorkerRegisterRequest
from holdfast.worker.building.builder import Builder
from holdfast.worker.exit_codes import EXIT_BROKEN
from holdfast.worker.placed.answers import write_answer
from holdfast.worker.placed.attempt import Brief, PlacedAttempt
from holdfast.worker.placed.orders import Orders
from holdfast.worker.placed.runner import PlacedRunner
from holdfast.worker.placed.server_calls import PlacedCalls
from holdfast.worker.placed.service import open_door
from holdfast.worker.placed.takeover import find_left
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.function import HANDED_BACK, KILLED
from holdfast.worker.slots import Slot

log = logging.getLogger("holdfast.placed")
SILENCE_SECONDS = 60.0
LOOK_SECONDS = 0.2
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 5.0
STOP_SECONDS_MAX = 20.0
TELL_SECONDS_MAX = 3.0


@dataclass(frozen=True, slots=True)
class PlacedOptions:
    """How a worker of placed work differs from the next one; `folder` belongs to its slot.

    `address` is where servers call it, if not where it listens.
    """

    server: str
    folder: Path
    capacity: Capacity
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    name: str = field(default_factory=socket.gethostname)
    host: str = "127.0.0.1"
    port: int = 0
    address: str | None = None
    drain_seconds: float = 30.0
    silence_seconds: float = SILENCE_SECONDS
    cache: Path | None = None


class PlacedWorker:
    """One process that is called; a new incarnation each time it registers."""

    def __init__(self, options: PlacedOptions, slot: Slot) -> None:
        self.options = options
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        self._transport = Transport(options.server)
        self._calls = PlacedCalls(self._transport)
        cache = options.cache or options.folder.parent / "cache"
        self._runner = PlacedRunner(
            self._transport,
            Builder(cache, self._transport),
            imports=options.imports,
            on_news=self._calls.tell_news,
        )
        self._orders, self._secret, self._is_asked_again = Orders(""), "", False
        self._become_new()
        self._heard_at = boot_clock()
        self._attempts: dict[tuple[str, int], PlacedAttempt] = {}
        self._running: dict[PlacedAttempt, asyncio.Task[None]] = {}
        self._removing: set[asyncio.Task[None]] = set()
        # Begun here and gone: never begun again, as long as calls name them.
        self._gone: set[tuple[str, int]] = set()
        self._broken: WeakSet[PlacedAttempt] = WeakSet()
        self._forgotten = asyncio.Event()
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def worker_id(self) -> str:
        """The name of this incarnation."""
        return self._orders.worker_id

    def drain(self) -> None:
        """Take nothing more; a second request stops what still runs."""
        if self._draining.is_set():
            self._stopping.set()
        self._draining.set()

    async def run(self) -> None:
        """Register, and be called until told to drain."""
        async with self._open() as address:
            news = asyncio.create_task(self._calls.pass_news_on(lambda: self.worker_id))
            try:
                left = await asyncio.to_thread(find_left, self.options.folder)
                previous = self._slot.previous if left.is_all else None
                await self._register(address, previous, left.attempts)
                while not self._draining.is_set():
                    await self._serve(address)
                await self._leave()
            finally:
                # What still runs has shims, and whoever comes next takes it over.
                await _end_all([news, *self._running.values()])
                if self._removing:
                    await asyncio.wait(self._removing)

    def obey(self, request: WorkerHeartbeatRequest) -> WorkerHeartbeatAnswer:
        """Bring what is here closer to what is wanted, and say what is here."""
        self._orders.admit(request)
        self._heard_at = boot_clock()
        if request.drain and not self._draining.is_set():
            self.drain()
        for name in request.acknowledged:
            self._forget((name.task_id, name.attempt))
        wanted = {(task.task_id, task.attempt) for task in request.tasks_to_run}
        ended = {
            (task.task_id, task.attempt): self._orders.expires_at(request, task.lease_ms)
            for task in request.tasks_to_kill
        }
        for task in request.tasks_to_run:
            self._want(task, self._orders.expires_at(request, task.lease_ms))
        for key, attempt in self._attempts.items():
            if key in ended:
                # Its lease lives on as long as its grace.
                attempt.renew(ended[key] or attempt.expires_at)
                attempt.end()
            elif key not in wanted:  # nobody waits for it, and its lease may be another's by now
                attempt.ask_to_stop("hard")
        self._gone &= wanted | ended.keys()
        self._orders.note_answer(boot_clock())
        return write_answer(request, self._attempts.values())

    def _want(self, task: TaskToRun, expires_at: float | None) -> None:
        key = (task.task_id, task.attempt)
        attempt = self._attempts.get(key)
        if attempt is not None:
            if expires_at is not None:
                attempt.renew(expires_at)
            elif not self._is_asked_again:  # adopted: our first answer has to be stored first
                self._is_asked_again = True
                self._calls.tell_news()
            if task.cancel_ms is not None:
                attempt.ask_to_stop("soft", task.cancel_ms / 1000)
        elif key not in self._gone and expires_at is not None and bytes(task.job) != b"null":
            self._take(task, expires_at)

    def _take(self, task: TaskToRun, expires_at: float) -> None:
        """Begin an attempt that is new here, unless there is no point in it."""
        try:
            job = read_tolerantly(bytes(task.job), PlacedJob)
        except msgspec.DecodeError as error:  # then its lease runs out, and the others run on
            log.error("task %s cannot be understood here: %s", task.task_id, error)
            return
        brief = Brief(
            task_id=task.task_id,
            attempt=task.attempt,
            lease_token=task.lease_token,
            job=job,
            began_at=boot_clock(),
            trace_parent=task.trace_parent or job.trace_parent,
        )
        folder = self.options.folder / f"{task.task_id}.{task.attempt}"
        attempt = PlacedAttempt(brief, folder, expires_at)
        attempt.take(task)
        if self._draining.is_set():
            attempt.outcome = HANDED_BACK
        elif task.cancel_ms is not None:
            attempt.outcome = KILLED
        elif boot_clock() >= attempt.kill_at:
            return
        self._attempts[attempt.key] = attempt
        if not attempt.is_over:
            self._begin(attempt, self._runner.run(attempt))

    def _begin(self, attempt: PlacedAttempt, work: Coroutine[Any, Any, None]) -> None:
        self._running[attempt] = task = asyncio.create_task(work)
        task.add_done_callback(lambda task: self._end(attempt, task))

    def _end(self, attempt: PlacedAttempt, task: asyncio.Task[None]) -> None:
        self._running.pop(attempt, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        named = describe(attempt)
        log.critical(
            "task %s attempt %d broke its worker", *attempt.key, exc_info=error, extra=named
        )
        if attempt in self._broken:
            os._exit(EXIT_BROKEN)  # whoever comes next takes its shim over, or ends it
        if not attempt.is_over:
            self._broken.add(attempt)
            self._begin(attempt, self._runner.give_up(attempt, error))

    def _forget(self, key: tuple[str, int]) -> None:
        """Drop an attempt whose end has been heard."""
        attempt = self._attempts.get(key)
        if attempt is None or not attempt.is_over:
            return
        del self._attempts[key]
        self._gone.add(key)
        self._forgotten.set()
        removal = asyncio.create_task(asyncio.to_thread(attempt.remove))
        self._removing.add(removal)
        removal.add_done_callback(self._end_removal)

    def _end_removal(self, removal: asyncio.Task[None]) -> None:
        self._removing.discard(removal)
        if not removal.cancelled() and (error := removal.exception()) is not None:
            log.error("the folder of an attempt is left behind", exc_info=error)

    def _become_new(self) -> None:
        """Choose the name of the next incarnation; calls to any other are refused."""
        self._orders = Orders(f"{self.options.name}-{uuid4().hex[:12]}")
        self._secret = secrets.token_urlsafe(32)
        self._is_asked_again = False

    async def _register(
        self, address: str, replaces: str | None, found: list[PlacedAttempt]
    ) -> None:
        """Register as a new incarnation, and end what it may not adopt."""
        for attempt in found:
            # Before anybody can call: what is not here would count as missing.
            self._attempts[attempt.key] = attempt
            if not attempt.is_over:
                self._begin(attempt, self._runner.take_over(attempt))
        answer = await self._insist_on_registering(address, replaces, found)
        self._slot.record(self.worker_id)
        self._heard_at = boot_clock()
        adopted = {(name.task_id, name.attempt) for name in answer.adopted}
        log.info("registered as %s, adopted %d attempts", self.worker_id, len(adopted))
        for attempt in found:
            if attempt.key not in adopted:
                attempt.ask_to_stop("hard")

    async def _insist_on_registering(
        self, address: str, replaces: str | None, found: list[PlacedAttempt]
    ) -> WorkerRegisterAnswer:
        pause = PAUSE_SECONDS
        while True:
            try:
                return await self._calls.register(self._introduce(address, replaces, found))
            except (NotFound, Invalid) as error:
                if replaces is None:
                    raise
                log.info("does not replace %s: %s", replaces, error)
                replaces = None
            except IllegalMove as error:  # the first answer was lost, and we counted as dead since
                log.info("starting anew: %s", error)
                replaces = self.worker_id
                self._become_new()
            except (Unavailable, Refused) as error:
                if self._draining.is_set():
                    raise
                log.warning("cannot register yet: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)

    def _introduce(
        self, address: str, replaces: str | None, found: list[PlacedAttempt]
    ) -> WorkerRegisterRequest:
        return WorkerRegisterRequest(
            self.worker_id,
            self.options.name,
            socket.gethostname(),
            [],
            replaces,
            self.options.address or address,
            self._secret,
            self.options.capacity,
            self.options.attributes,
            [AdoptedAttempt(a.task_id, a.number, a.lease_token) for a in found if replaces],
        )

    async def _serve(self, address: str) -> None:
        """Be called until told to drain, or until nobody calls any more."""
        while not self._draining.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._draining.wait(), LOOK_SECONDS)
            if self._is_silent():
                log.error("no call for %g s: starting anew", boot_clock() - self._heard_at)
                await self._start_anew(address)

    def _is_silent(self) -> bool:
        """Tell whether nobody has called for too long: till its leases have ended, at most."""
        patience = self.options.silence_seconds
        if self._attempts:
            left = max(attempt.expires_at for attempt in self._attempts.values()) - self._heard_at
            # Leases that end while calls come are another matter: then our answers get lost.
            least = min(attempt.job.lease for attempt in self._attempts.values()) / 2
            patience = min(patience, max(left, least))
        return boot_clock() - self._heard_at > patience

    async def _start_anew(self, address: str) -> None:
        """Stop everything, and be another incarnation; what had ended by itself is told by that."""
        previous = self.worker_id
        self._become_new()  # from here on nobody is obeyed
        await self._stop_all("hard")
        told = [a for a in self._attempts.values() if a.outcome and a.outcome.status != "killed"]
        for attempt in list(self._attempts.values()):
            if attempt not in told:
                self._forget(attempt.key)
        # Only an incarnation that is gone with all that it ran can be replaced.
        await self._register(address, None if self._running else previous, told)

    async def _leave(self) -> None:
        """Let what runs come to its end, hand back the rest, and say goodbye."""
        log.info("draining: %d attempts still run", len(self._running))
        await self._calls.drain(self.worker_id)
        ends_at = self._loop.time() + self.options.drain_seconds
        while self._running and self._loop.time() < ends_at and not self._stopping.is_set():
            await asyncio.wait(
                [*self._running.values()], timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED"
            )
        await self._stop_all("handed_back")
        if self._running:
            log.error("%d attempts do not end: left to their shims", len(self._running))
            return
        await self._tell_ends()
        if self._attempts:
            log.error("%d ends were not heard: left to the next worker here", len(self._attempts))
            return
        await self._calls.leave(self.worker_id, self._secret)

    async def _stop_all(self, mode: Literal["hard", "handed_back"]) -> None:
        """End everything that runs, and wait until it is gone, for some time."""
        for attempt in self._running:
            attempt.ask_to_stop(mode)
        if self._running:
            await asyncio.wait([*self._running.values()], timeout=STOP_SECONDS_MAX)

    async def _tell_ends(self) -> None:
        """Have the last ends heard: by a call, or else by telling them ourselves."""
        self._calls.tell_news()
        with suppress(TimeoutError):
            async with asyncio.timeout(TELL_SECONDS_MAX):
                while self._attempts:
                    self._forgotten.clear()
                    await self._forgotten.wait()
        ended = [attempt for attempt in self._attempts.values() if attempt.is_over]
        heard = await self._calls.complete(self.worker_id, [a.complete() for a in ended])
        for attempt, is_heard in zip(ended, heard, strict=True):
            if is_heard:
                self._forget(attempt.key)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[str]:
        self.options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with (
            self._transport,
            open_door(
                self.options.host,
                self.options.port,
                secret=lambda: self._secret,
                obey=self.obey,
            ) as address,
        ):
            yield address


async def _end_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.wait(ending)
