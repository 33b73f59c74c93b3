"""A worker of placed work: called by the server, it runs what is wanted of it and nothing else.

call ──► incarnation (obeyed?) ──► attempts ── runner ──► shims (outlive this process)
answer ◄── what is here, what ended and was not acknowledged
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.client.transport import Transport
from holdfast.model.addresses import without_login
from holdfast.model.outage import Outage
from holdfast.model.workers.resources import AttributeValue, Capacity
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.cluster import (
    WorkerHeartbeatAnswer,
    WorkerHeartbeatRequest,
)
from holdfast.wire.requests import AdoptedAttempt, WorkerRegisterRequest
from holdfast.worker.allowing import Allowed
from holdfast.worker.building.builder import Builder
from holdfast.worker.placed.answers import write_answer
from holdfast.worker.placed.attempt import PlacedAttempt
from holdfast.worker.placed.held_attempts import HeldAttempts
from holdfast.worker.placed.incarnation import Incarnation
from holdfast.worker.placed.listener import ListenerTls, advertise, listen_for_calls
from holdfast.worker.placed.obedience import Obedience, count_patience
from holdfast.worker.placed.registration import register
from holdfast.worker.placed.runner import PlacedRunner
from holdfast.worker.placed.server_calls import ServerCalls
from holdfast.worker.placed.takeover import find_leftover
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running.attempt_uids import AttemptUids
from holdfast.worker.running_code import RunningCode
from holdfast.worker.slots import Slot

log = logging.getLogger("holdfast.placed")
HEARTBEAT_TIMEOUT_SECONDS = 60.0
LOOK_SECONDS = 0.2
STOP_SECONDS_MAX = 20.0
REPORT_SECONDS_MAX = 3.0


@dataclass(frozen=True, slots=True)
class PlacedOptions:
    """How a worker of placed work differs from the next one; `folder` belongs to its slot.

    `address` is where servers call it, if not where it listens. `has_devices` if the devices of
    this host are given out one by one, here or by another worker. A `book` is shared with what this
    process claims from queues.
    """

    server: str
    folder: Path
    capacity: Capacity
    allowed: Allowed
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    has_devices: bool = False
    imports: tuple[str, ...] = ()
    codec: str | None = None
    name: str = field(default_factory=socket.gethostname)
    host: str = "127.0.0.1"
    port: int = 0
    address: str | None = None
    # The name or address by which other hosts know this one.
    advertised: str | None = None
    tls: ListenerTls | None = None
    drain_seconds: float = 30.0
    heartbeat_timeout_seconds: float = HEARTBEAT_TIMEOUT_SECONDS
    cache: Path | None = None
    uids: AttemptUids | None = None
    book: str | None = None
    code: RunningCode = field(default_factory=RunningCode)


class PlacedWorker:
    """One process that is called; a new incarnation each time it registers."""

    def __init__(self, options: PlacedOptions, slot: Slot) -> None:
        self.options = options
        self._slot = slot
        outage = Outage(f"the server at {without_login(options.server)}")
        self._transport = Transport(options.server, outage=outage)
        self._calls = ServerCalls(self._transport)
        self._incarnation = Incarnation(options.name)
        cache = options.cache or options.folder.parent / "cache"
        self._attempts = HeldAttempts(
            PlacedRunner(
                self._transport,
                Builder(cache, self._transport),
                imports=options.imports,
                codec=options.codec,
                allowed=options.allowed,
                name=options.name,
                has_devices=options.has_devices,
                uids=options.uids,
                on_change=self._calls.ask_for_call,
            )
        )
        self._obedience = Obedience(
            self._incarnation,
            self._attempts,
            options.folder,
            ask_for_call=self._calls.ask_for_call,
        )
        self._called_at = boot_clock()
        self._draining = asyncio.Event()
        self._stopping = asyncio.Event()
        # Set once a server knows it: from then on it may speak in its own name.
        self.registered = asyncio.Event()

    @property
    def credential(self) -> WorkerCredential:
        """What this incarnation is known by."""
        return self._incarnation.credential

    @property
    def worker_id(self) -> str:
        """The name of this incarnation."""
        return self._incarnation.worker_id

    @property
    def attempts_count(self) -> int:
        """How many attempts it holds that the server has not heard the end of."""
        return len(self._attempts)

    @property
    def is_draining(self) -> bool:
        """Whether it has been asked to leave."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Take nothing more; a second request stops what still runs."""
        if self._draining.is_set():
            self._stopping.set()
        self._draining.set()

    async def run(self) -> None:
        """Register, and be called until asked to drain."""
        async with self._open() as address:
            requests = asyncio.create_task(self._calls.send_call_requests(lambda: self.worker_id))
            try:
                await self._attempts.open()
                left = await asyncio.to_thread(find_leftover, self.options.folder)
                for attempt in left.attempts:
                    # Before anybody can call: what is not here would count as missing.
                    self._attempts.take_over(attempt)
                previous = self._slot.previous if left.is_all else None
                await self._register(address, previous, left.attempts)
                while not self._draining.is_set():
                    await self._wait_for_silence()
                    if not self._draining.is_set():
                        await self._start_anew(address)
                await self._leave()
            finally:
                requests.cancel()
                await self._attempts.abandon()
                await asyncio.wait([requests])

    def obey(self, request: WorkerHeartbeatRequest) -> WorkerHeartbeatAnswer:
        """Bring what is here closer to what is wanted, and answer what is here."""
        self._obedience.obey(request, is_draining=self.is_draining or request.drain)
        self._called_at = boot_clock()
        if request.drain and not self._draining.is_set():
            self.drain()
        self._calls.note_called()
        return write_answer(request, self._attempts, draining=self.is_draining)

    async def _register(
        self, address: str, replaces: WorkerCredential | None, found: list[PlacedAttempt]
    ) -> None:
        """Register as a new incarnation, and end what it may not adopt."""

        def write_request(replaces: WorkerCredential | None) -> WorkerRegisterRequest:
            self._transport.show(self.credential)
            return self._write_registration(address, replaces, found)

        answer = await register(
            self._calls,
            self._incarnation,
            write_request,
            replaces=replaces,
            is_draining=self._draining.is_set,
        )
        self._slot.record(self.credential)
        self.registered.set()
        self.options.code.note_placed(self.worker_id)
        self._called_at = boot_clock()
        adopted = {(name.task_id, name.attempt) for name in answer.adopted}
        log.info("registered as %s, adopted %d attempts", self.worker_id, len(adopted))
        self._warn_if_hasty(answer.heartbeat_seconds)
        for attempt in found:
            if attempt.key not in adopted:
                attempt.ask_to_stop("hard")

    def _warn_if_hasty(self, tick: float | None) -> None:
        """Warn of a time-out that passes between two calls, so that it registers without end."""
        patience = self.options.heartbeat_timeout_seconds
        if tick is not None and patience <= tick:
            log.warning(
                "%s starts anew after %g s without a call, and is called every %g s; "
                "set --heartbeat-timeout-seconds to more than %g, better %g",
                *(self.worker_id, patience, tick, tick, 6 * tick),
            )

    def _write_registration(
        self, address: str, replaces: WorkerCredential | None, found: list[PlacedAttempt]
    ) -> WorkerRegisterRequest:
        return WorkerRegisterRequest(
            self.worker_id,
            self.options.name,
            self.options.advertised or socket.gethostname(),
            [],
            None if replaces is None else replaces.worker_id,
            self.options.address or advertise(address, self.options.advertised),
            self.credential.secret,
            self.options.capacity,
            self.options.attributes,
            [AdoptedAttempt(a.task_id, a.number, a.lease_token) for a in found if replaces],
            self.options.book,
            replaces_secret=(replaces.secret or None) if replaces is not None else None,
        )

    async def _wait_for_silence(self) -> None:
        """Be called until asked to drain, or until nobody calls any more."""
        while not self._draining.is_set() and not self._is_silent():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._draining.wait()

    def _is_silent(self) -> bool:
        """Tell whether nobody has called for too long: till its leases have ended, at most."""
        most = self.options.heartbeat_timeout_seconds
        patience = count_patience(self._attempts, self._called_at, most)
        return boot_clock() - self._called_at > patience

    async def _start_anew(self, address: str) -> None:
        """Stop everything, and be another incarnation, which reports what had ended by itself."""
        log.error("no call for %g s: starting anew", boot_clock() - self._called_at)
        previous = self.credential
        self._incarnation.begin_anew()  # from here on nobody is obeyed
        await self._attempts.stop_all("hard", STOP_SECONDS_MAX)
        ended = [a for a in self._attempts if a.outcome and a.outcome.status != "killed"]
        for attempt in self._attempts:
            if attempt not in ended:
                self._attempts.drop(attempt.key)
        # Only an incarnation that is gone with all that it ran can be replaced.
        await self._register(address, None if self._attempts.running_count else previous, ended)

    async def _leave(self) -> None:
        """Let what runs come to its end, hand back the rest, and deregister."""
        log.info("draining: %d attempts still run", self._attempts.running_count)
        await self._calls.drain(self.worker_id)
        ends_at = boot_clock() + self.options.drain_seconds
        while self._attempts.running_count and boot_clock() < ends_at:
            if self._stopping.is_set():
                break
            await self._attempts.wait_for_an_end(LOOK_SECONDS)
        await self._attempts.stop_all("handed_back", STOP_SECONDS_MAX)
        if left := self._attempts.running_count:
            log.error("%d attempts do not end: left to their shims", left)
            return
        await self._report_ends()
        if left := len(self._attempts):
            log.error("%d ends are not acknowledged: left to the next worker here", left)
            return
        await self._calls.leave(self.worker_id, self.credential.secret)

    async def _report_ends(self) -> None:
        """Have the last ends acknowledged: by a call, or else by reporting them ourselves."""
        self._calls.ask_for_call()
        await self._attempts.wait_until_empty(REPORT_SECONDS_MAX)
        ended = [attempt for attempt in self._attempts if attempt.is_over]
        known = await self._calls.complete(self.worker_id, [a.complete() for a in ended])
        for attempt, is_known in zip(ended, known, strict=True):
            if is_known:
                self._attempts.drop(attempt.key)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[str]:
        self.options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with (
            self._transport,
            listen_for_calls(
                self.options.host,
                self.options.port,
                secret=lambda: self.credential.call_secret,
                obey=self.obey,
                tls=self.options.tls,
            ) as address,
        ):
            yield address
