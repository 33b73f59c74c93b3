"""Keeps leases alive and code within them, on a thread that blocked user code cannot starve.

    worker's loop ── hold, drop ──►  keeper's thread  ── heartbeats ──►  server
         ▲                              │
         └────────── stop ──────────────┘   (cancelled, lease lost, drain)

Times are read from a clock that runs during suspend. At `margin` before a lease's end its code is
stopped; in-process code that is still there at half of it ends the whole process. The warden, which
needs neither this thread nor its interpreter's lock, does the same a little later.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from holdfast.client.both import LoopThread
from holdfast.client.transport import Transport
from holdfast.errors import LeaseConflict, Refused, Unavailable
from holdfast.wire.answers import CancelNotice, HeartbeatAnswer
from holdfast.wire.requests import HeartbeatRequest
from holdfast.worker.attempt import Attempt, StopMode
from holdfast.worker.clock import boot_clock
from holdfast.worker.guard import Guard

log = logging.getLogger("holdfast.keeper")
TICK_SECONDS = 0.05
START_AFTER_SECONDS = 0.05
PROGRESS_EVERY_SECONDS = 0.5
BEAT_SECONDS_MAX = 5.0
LISTEN_MS = 20_000
AGAIN_SECONDS = 1.0
LEASES_PER_BEAT_MAX = 5000
EXIT_OVERRUN = 70


class Keeper:
    """The leases that this worker holds."""

    def __init__(
        self,
        transport: Transport,
        worker_id: str,
        guard: Guard,
        *,
        on_stop: Callable[[Attempt, StopMode], None],
        on_drain: Callable[[], None],
    ) -> None:
        self.transport = transport
        self._worker_id = worker_id
        self._guard = guard
        self._on_stop = on_stop
        self._on_drain = on_drain
        self._held: dict[tuple[str, int], Attempt] = {}
        self._lock = threading.Lock()
        self._self_deadline: float | None = None
        self._progress_at = 0.0
        self._beating: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.loop_thread = LoopThread("holdfast-keeper")

    def start(self) -> None:
        """Begin to keep leases."""
        self.loop_thread.run(self._start())

    def stop(self) -> None:
        """Keep no more leases; whatever still runs must be gone by now."""
        self.loop_thread.run(self._stop())
        self.loop_thread.stop()

    def hold(self, attempt: Attempt) -> None:
        """Keep an attempt's lease, and arm what ends this process if its code overruns it."""
        with self._lock:
            self._held[attempt.key] = attempt
            fatal_at = attempt.expires_at - attempt.margin / 4
            if self._self_deadline is None or fatal_at < self._self_deadline:
                self._arm(fatal_at)

    def drop(self, attempt: Attempt) -> None:
        """Keep a lease no longer: the server has heard of the attempt's end."""
        with self._lock:
            self._held.pop(attempt.key, None)

    def call(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run something on the keeper's loop and await it on the caller's."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop_thread.loop))

    async def _start(self) -> None:
        await self.transport.__aenter__()
        self._tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._listen())]

    async def _stop(self) -> None:
        beating = [self._beating] if self._beating else []
        for task in (*self._tasks, *beating):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.transport.__aexit__()

    async def _tick(self) -> None:
        while True:
            now = boot_clock()
            with self._lock:
                held = list(self._held.values())
            self._fence(held, now)
            due = self._due(held, now)
            if due and (self._beating is None or self._beating.done()):
                self._beating = asyncio.create_task(self._beat(due[:LEASES_PER_BEAT_MAX]))
            await asyncio.sleep(TICK_SECONDS)

    def _fence(self, held: list[Attempt], now: float) -> None:
        """Stop what is about to overrun its lease, and this process if it does not stop."""
        running = [attempt for attempt in held if not attempt.is_over]
        for attempt in running:
            if now >= attempt.expires_at - attempt.margin:
                self._ask(attempt, "lost", None)
            elif attempt.stop == "soft" and attempt.stop_by is not None and now >= attempt.stop_by:
                self._ask(attempt, "hard", None)
        inside = [attempt for attempt in running if attempt.in_process]
        for attempt in inside:
            if now >= attempt.expires_at - attempt.margin / 2:
                log.critical(
                    "task %s attempt %d cannot be stopped and its lease is running out: "
                    "this worker ends",
                    *attempt.key,
                )
                os._exit(EXIT_OVERRUN)
        fatal_at = min((a.expires_at - a.margin / 4 for a in inside), default=None)
        with self._lock:
            if fatal_at != self._self_deadline and not (fatal_at is None and self._held):
                self._arm(fatal_at)

    def _arm(self, fatal_at: float | None) -> None:
        self._self_deadline = fatal_at
        self._guard.hold_self(fatal_at)

    def _due(self, held: list[Attempt], now: float) -> list[Attempt]:
        """Choose whom to report: leases at half of their time, news of a start or of progress."""
        tell_progress = now >= self._progress_at
        due = [
            attempt
            for attempt in held
            if attempt.renew_at <= now
            or (
                attempt.started_at is not None
                and not attempt.start_told
                and not attempt.is_over
                and attempt.started_at + START_AFTER_SECONDS <= now
            )
            or (tell_progress and attempt.progress is not None)
        ]
        if tell_progress and any(attempt.progress is not None for attempt in due):
            self._progress_at = now + PROGRESS_EVERY_SECONDS
        return due

    async def _beat(self, attempts: list[Attempt]) -> None:
        sent_at = boot_clock()
        reports = [attempt.report() for attempt in attempts]
        request = HeartbeatRequest(self._worker_id, reports)
        try:
            answer = await self.transport.call(
                "POST",
                "/internal/heartbeat",
                HeartbeatAnswer,
                body=request,
                seconds_max=BEAT_SECONDS_MAX,
            )
        except (Unavailable, Refused) as error:
            log.warning("%d leases were not renewed: %s", len(attempts), error)
            for attempt, report in zip(attempts, reports, strict=True):
                attempt.renew_at = boot_clock() + AGAIN_SECONDS
                attempt.progress = attempt.progress or report.progress
            return
        for attempt, report, lease in zip(attempts, reports, answer.leases, strict=True):
            if lease.error is not None:
                if lease.error.code == "lease_conflict" and not attempt.is_over:
                    self._ask(attempt, "lost", None)
                attempt.renew_at = boot_clock() + AGAIN_SECONDS
            elif lease.lease_remaining_ms is not None:
                attempt.renew(sent_at, lease.lease_remaining_ms / 1000)
                attempt.start_told = attempt.start_told or report.state is not None
        self._obey(answer.cancel)
        if answer.drain:
            self._on_drain()

    async def _listen(self) -> None:
        """Keep one heartbeat waiting at the server, to hear of cancels at once."""
        while True:
            request = HeartbeatRequest(self._worker_id, [], wait_ms=LISTEN_MS)
            seconds_max = LISTEN_MS / 1000 + BEAT_SECONDS_MAX
            try:
                answer = await self.transport.call(
                    "POST",
                    "/internal/heartbeat",
                    HeartbeatAnswer,
                    body=request,
                    seconds_max=seconds_max,
                )
            except (Unavailable, LeaseConflict):
                # Renewals tell the same, and complain for both.
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            self._obey(answer.cancel)
            if answer.drain:
                self._on_drain()
                await asyncio.sleep(AGAIN_SECONDS)

    def _obey(self, notices: list[CancelNotice]) -> None:
        for notice in notices:
            with self._lock:
                attempt = self._held.get((notice.task_id, notice.attempt))
            if attempt is None or attempt.is_over:
                continue
            if notice.mode == "soft":
                remaining = (notice.remaining_ms or 0) / 1000
                self._ask(attempt, "soft", boot_clock() + max(remaining - attempt.margin, 0.0))
            elif _has_timed_out(attempt):
                self._ask(attempt, "timeout", boot_clock() + attempt.grace)
            else:
                self._ask(attempt, "hard", None)

    def _ask(self, attempt: Attempt, mode: StopMode, by: float | None) -> None:
        if attempt.ask_to_stop(mode, by):
            self._on_stop(attempt, mode)


def _has_timed_out(attempt: Attempt) -> bool:
    """Tell a run that took too long from a cancel: the server ends both at once."""
    if attempt.job.timeout is None or attempt.started_at is None or attempt.stop == "soft":
        return False
    return boot_clock() >= attempt.started_at + attempt.job.timeout
