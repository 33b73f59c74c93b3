"""A worker of placed work: called by the server, it runs what is wanted of it and nothing else.

call ── orders ──► attempts ── runner ──► shims (outlive this process)
answer ◄── what is here, what ended and was not acknowledged
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4
from weakref import WeakSet

import msgspec

from holdfast.client.transport import Transport
from holdfast.errors import Invalid, NotFound, Refused, Unavailable
from holdfast.model.resources import AttributeValue, Capacity
from holdfast.wire.answers import TaskCompleteAnswer, WorkerRegisterAnswer
from holdfast.wire.cluster import (
    PlacedJob,
    TaskToRun,
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.wire.requests import (
    AdoptedAttempt,
    Nothing,
    TaskCompleteRequest,
    WorkerLeaveRequest,
    WorkerNewsRequest,
    WorkerRegisterRequest,
)
from holdfast.wire.status import Changed
from holdfast.worker.builder import Builder
from holdfast.worker.clock import boot_clock
from holdfast.worker.orders import Orders
from holdfast.worker.placed_attempt import Brief, PlacedAttempt
from holdfast.worker.placed_runner import PlacedRunner
from holdfast.worker.placed_service import open_door
from holdfast.worker.shims import Shim, list_shims
from holdfast.worker.slots import Slot

log = logging.getLogger("holdfast.placed")
SILENCE_SECONDS = 60.0
LOOK_SECONDS = 0.2
CALL_SECONDS_MAX = 15.0
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 5.0
NEWS_PAUSE_SECONDS = 0.02
STOP_SECONDS_MAX = 20.0
EXIT_BROKEN = 70
_decode_job = msgspec.json.Decoder(PlacedJob).decode


@dataclass(frozen=True, slots=True)
class PlacedOptions:
    """How a worker of placed work differs from the next one; `folder` belongs to its slot."""

    server: str
    folder: Path
    capacity: Capacity
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    name: str = field(default_factory=socket.gethostname)
    host: str = "127.0.0.1"
    port: int = 0
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
        cache = options.cache or options.folder.parent / "cache"
        self._runner = PlacedRunner(
            self._transport,
            Builder(cache, self._transport),
            imports=options.imports,
            on_news=self._tell_news,
        )
        self._orders = Orders("")
        self._secret = secrets.token_urlsafe(32)
        self._heard_at = boot_clock()
        self._attempts: dict[tuple[str, int], PlacedAttempt] = {}
        self._running: dict[PlacedAttempt, asyncio.Task[None]] = {}
        # Begun here and gone: never begun again, as long as calls name them.
        self._gone: set[tuple[str, int]] = set()
        self._broken: WeakSet[PlacedAttempt] = WeakSet()
        self._has_news = asyncio.Event()
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
            found = self._find_shims()
            await self._register(address, self._slot.previous, found)
            news = asyncio.create_task(self._pass_news_on())
            try:
                while not self._draining.is_set():
                    await self._serve(address)
                await self._leave()
            finally:
                news.cancel()
                with suppress(asyncio.CancelledError):
                    await news

    def obey(self, request: WorkerHeartbeatRequest) -> WorkerHeartbeatAnswer:
        """Bring what is here closer to what is wanted, and say what is here."""
        self._orders.admit(request)
        self._heard_at = boot_clock()
        if request.drain and not self._draining.is_set():
            self.drain()
        for name in request.acknowledged:
            self._forget((name.task_id, name.attempt))
        wanted = set()
        for task in request.tasks_to_run:
            wanted.add((task.task_id, task.attempt))
            self._want(task, self._orders.expires_at(request, task.lease_ms))
        for ended in request.tasks_to_kill:
            wanted.add((ended.task_id, ended.attempt))
            self._kill((ended.task_id, ended.attempt))
        for key in list(self._attempts):
            if key not in wanted:
                self._kill(key)
        self._gone &= wanted
        return self._answer(request)

    def _answer(self, request: WorkerHeartbeatRequest) -> WorkerHeartbeatAnswer:
        attempts = self._attempts.values()
        self._orders.note_answer(boot_clock())
        return WorkerHeartbeatAnswer(
            worker_id=request.worker_id,
            epoch=request.epoch,
            number=request.number,
            running_tasks=[attempt.report() for attempt in attempts if not attempt.is_over],
            completed_tasks=[attempt.complete() for attempt in attempts if attempt.is_over],
        )

    def _want(self, task: TaskToRun, expires_at: float | None) -> None:
        key = (task.task_id, task.attempt)
        attempt = self._attempts.get(key)
        if attempt is not None:
            if expires_at is not None:
                attempt.renew(expires_at)
            if task.cancel_ms is not None:
                self._stop_softly(attempt, task.cancel_ms / 1000)
            return
        job = bytes(task.job)
        if key in self._gone or expires_at is None or job == b"null":
            return
        brief = Brief(
            task_id=task.task_id,
            attempt=task.attempt,
            lease_token=task.lease_token,
            job=_decode_job(job),
        )
        attempt = PlacedAttempt(brief, self._folder_of(key), expires_at)
        attempt.take(task)
        if not attempt.is_out_of_time():
            self._attempts[key] = attempt
            self._begin(attempt, asyncio.create_task(self._runner.run(attempt)))

    def _begin(self, attempt: PlacedAttempt, task: asyncio.Task[None]) -> None:
        self._running[attempt] = task
        task.add_done_callback(lambda task: self._end(attempt, task))

    def _end(self, attempt: PlacedAttempt, task: asyncio.Task[None]) -> None:
        self._running.pop(attempt, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not attempt.is_over:
            log.critical("task %s attempt %d broke its worker", *attempt.key, exc_info=error)
            if attempt in self._broken:
                os._exit(EXIT_BROKEN)  # whoever comes next takes its shim over, or ends it
            self._broken.add(attempt)
            self._begin(attempt, asyncio.create_task(self._runner.give_up(attempt, error)))

    def _kill(self, key: tuple[str, int]) -> None:
        attempt = self._attempts.get(key)
        if attempt is None or attempt.is_over or attempt.stop in ("hard", "handed_back"):
            return
        attempt.stop = "hard"
        self._end_processes(attempt)

    def _stop_softly(self, attempt: PlacedAttempt, grace: float) -> None:
        if attempt.stop is None and not attempt.is_over:
            attempt.stop = "soft"
            if attempt.shim is not None:
                attempt.shim.soft(grace)
            else:
                self._running[attempt].cancel()

    def _end_processes(self, attempt: PlacedAttempt) -> None:
        if attempt.shim is not None:
            attempt.shim.hard()
        elif attempt in self._running:
            self._running[attempt].cancel()

    def _forget(self, key: tuple[str, int]) -> None:
        """Drop an attempt whose end has been heard."""
        attempt = self._attempts.pop(key, None)
        if attempt is None:
            return
        self._gone.add(key)
        if attempt.shim is not None and not attempt.shim.is_alive():
            removal = asyncio.create_task(asyncio.to_thread(attempt.shim.remove))
            removal.add_done_callback(_log_failure)

    def _find_shims(self) -> list[PlacedAttempt]:
        """Find what an earlier incarnation left: running, ended, or lost."""
        found = []
        for folder in list_shims(self.options.folder):
            try:
                shim = Shim.adopt(folder)
                brief = msgspec.convert(shim.note, Brief)
            except (Invalid, msgspec.ValidationError) as error:
                log.error("%s cannot be taken over, and is left: %s", folder, error)
                continue
            attempt = PlacedAttempt(brief, folder, boot_clock())
            attempt.shim = shim
            attempt.state = "RUNNING" if shim.has_started() else "ASSIGNED"
            found.append(attempt)
        return found

    async def _register(
        self, address: str, replaces: str | None, found: list[PlacedAttempt]
    ) -> None:
        """Register as a new incarnation; what cannot be adopted is ended before it serves."""
        worker_id = f"{self.options.name}-{uuid4().hex[:12]}"
        self._orders, self._secret = Orders(worker_id), secrets.token_urlsafe(32)
        for attempt in found:
            # Before anybody can call: what is not here would count as missing.
            self._attempts[attempt.key] = attempt
            self._begin(attempt, asyncio.create_task(self._runner.watch(attempt)))
        body = WorkerRegisterRequest(
            worker_id,
            self.options.name,
            socket.gethostname(),
            [],
            replaces,
            address,
            self._secret,
            self.options.capacity,
            self.options.attributes,
            [AdoptedAttempt(a.task_id, a.number, a.lease_token) for a in found if replaces],
        )
        answer = await self._insist_on_registering(body)
        self._slot.record(worker_id)
        self._heard_at = boot_clock()
        adopted = {(name.task_id, name.attempt) for name in answer.adopted}
        log.info("registered as %s, adopted %d attempts", worker_id, len(adopted))
        for attempt in found:
            if attempt.key not in adopted:
                self._kill(attempt.key)

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
            except (NotFound, Invalid) as error:
                if body.replaces is None:
                    raise
                log.info("does not replace %s: %s", body.replaces, error)
                body = msgspec.structs.replace(body, replaces=None, adopts=[])
            except (Unavailable, Refused) as error:
                if self._draining.is_set():
                    raise
                log.warning("cannot register yet: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _serve(self, address: str) -> None:
        """Be called until told to drain, or until nobody calls any more."""
        while not self._draining.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._draining.wait(), LOOK_SECONDS)
            if boot_clock() - self._heard_at > self.options.silence_seconds:
                log.error("no call for %g s: starting anew", self.options.silence_seconds)
                await self._stop_all("hard")
                await self._register(address, self.worker_id, [])
                return

    async def _leave(self) -> None:
        """Let what runs come to its end, hand back the rest, and say goodbye."""
        log.info("draining: %d attempts still run", len(self._running))
        await self._call("POST", f"/api/workers/{self.worker_id}:drain", Changed)
        ends_at = self._loop.time() + self.options.drain_seconds
        while self._running and self._loop.time() < ends_at and not self._stopping.is_set():
            await asyncio.wait(
                [*self._running.values()], timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED"
            )
        await self._stop_all("handed_back")
        ended = [attempt for attempt in self._attempts.values() if attempt.is_over]
        if ended:
            body = TaskCompleteRequest(self.worker_id, [attempt.complete() for attempt in ended])
            if await self._call("POST", "/internal/task-complete", TaskCompleteAnswer, body=body):
                for attempt in ended:
                    self._forget(attempt.key)
        await self._call(
            "POST", "/internal/worker-leave", body=WorkerLeaveRequest(self.worker_id, self._secret)
        )

    async def _stop_all(self, mode: str) -> None:
        """End everything that runs, and wait until it is gone."""
        for attempt in list(self._running):
            if attempt.stop != "hard":
                attempt.stop = "hard" if mode == "hard" else "handed_back"
                self._end_processes(attempt)
        if self._running:
            await asyncio.wait([*self._running.values()], timeout=STOP_SECONDS_MAX)
        if mode == "hard":
            for key in list(self._attempts):
                self._forget(key)

    async def _call(
        self, method: str, path: str, answer: type = Nothing, *, body: object = None
    ) -> bool:
        """Tell the server something it can do without; False if it did not hear."""
        try:
            await self._transport.call(
                method, path, answer, body=body, seconds_max=CALL_SECONDS_MAX
            )
        except (Unavailable, Refused) as error:
            log.info("the server was not told (%s): %s", path, error)
            return False
        return True

    def _tell_news(self) -> None:
        self._has_news.set()

    async def _pass_news_on(self) -> None:
        """Ask to be called soon whenever something has happened here."""
        while True:
            await self._has_news.wait()
            await asyncio.sleep(NEWS_PAUSE_SECONDS)
            self._has_news.clear()
            body = WorkerNewsRequest(self.worker_id)
            await self._call("POST", "/internal/worker-news", body=body)

    def _folder_of(self, key: tuple[str, int]) -> Path:
        return self.options.folder / f"{key[0]}.{key[1]}"

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


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the folder of an attempt is left behind", exc_info=error)
