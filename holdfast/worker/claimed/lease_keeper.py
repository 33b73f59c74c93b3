"""Keeps leases alive and code within them, on a thread that blocked user code cannot starve.

    worker's loop ── hold, drop ──►  keeper's thread  ── heartbeats ──►  server
         ▲                               │
         └────── stop, stuck, drain ─────┘

Times are read from a clock that runs during suspend. At `stop_at` before a lease's end its code is
stopped. In-process code that must go, for this or another reason, and is still there at `stuck_at`
makes the worker leave; at `kill_at` it ends the whole process. The watchdog needs neither this
thread nor its interpreter's lock, and does the same a little later.
"""

import asyncio
import logging
import math
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.client.both import LoopThread
from holdfast.client.pauses import spread
from holdfast.client.transport import Transport
from holdfast.errors import Refused, Unavailable
from holdfast.wire.answers import CancelNotice, HeartbeatAnswer, LeaseAnswer
from holdfast.wire.requests import HeartbeatRequest, LeaseReport
from holdfast.worker.claimed.attempt import AGAIN_SECONDS_MAX, Attempt, StopMode
from holdfast.worker.exit_codes import EXIT_OVERRUN
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.running_code import RunningCode
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost

log = logging.getLogger("holdfast.keeper")
TICK_SECONDS = 0.05
PROGRESS_EVERY_SECONDS = 0.5
BEAT_SECONDS_MAX = 5.0
LISTEN_MS = 20_000
LEASES_PER_BEAT_MAX = 5000
DEADLINE_STEP_SECONDS = 0.5
# How long nothing in this process may have run once a timeout is over.
FROZEN_SECONDS_MAX = 5.0


class Overrun(NamedTuple):
    """When the watchdog ends this process, and why."""

    at: float
    reason: str


class Keeper:
    """The leases that this worker holds."""

    def __init__(
        self,
        transport: Transport,
        worker_id: str,
        watchdog: WatchdogHandle,
        *,
        code: RunningCode,
        on_stop: Callable[[Attempt, StopMode], None],
        on_stuck: Callable[[Attempt], None],
        on_drain: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._transport = transport
        self._worker_id = worker_id
        self._watchdog = watchdog
        self._code = code
        self._on_stop = on_stop
        self._on_stuck = on_stuck
        self._on_drain = on_drain
        self._on_failure = on_failure
        self._held: dict[tuple[str, int], Attempt] = {}
        self._stuck: set[Attempt] = set()
        self._lock = threading.Lock()
        self._self_deadline: float | None = None
        self._is_guarded = True
        self._progress_at = 0.0
        self._beating: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._thread: LoopThread | None = None

    def start(self) -> None:
        """Begin to keep leases."""
        self._thread = LoopThread("holdfast-keeper")
        self._thread.run(self._start())

    def stop(self) -> None:
        """Keep no more leases; whatever still runs must be gone by now."""
        if self._thread is not None:
            self._thread.stop(self._transport.__aexit__())

    def hold(self, attempts: Sequence[Attempt]) -> None:
        """Keep the leases of attempts.

        For those whose code is about to run in this process (`in_process`), arm what ends the
        process if they overrun their leases. Raises WatchdogLost, and holds them all the same.
        """
        with self._lock:
            self._held.update((attempt.key, attempt) for attempt in attempts)
            first = _first_overrun(attempts, boot_clock())
            if first is not None and first.at < (self._self_deadline or math.inf):
                self._arm(first)

    def drop(self, attempt: Attempt) -> None:
        """Keep a lease no longer: the server has heard of the attempt's end."""
        with self._lock:
            self._held.pop(attempt.key, None)
            self._stuck.discard(attempt)

    async def _start(self) -> None:
        await self._transport.__aenter__()
        self._tasks = [self._begin(self._tick()), self._begin(self._listen())]

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._see_end)
        return task

    def _see_end(self, task: asyncio.Task[None]) -> None:
        """Tell of a bug here: a worker whose leases nobody keeps must not go on."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def _tick(self) -> None:
        while True:
            now = boot_clock()
            with self._lock:
                held = list(self._held.values())
                self._watch_self(held)
            self._enforce_deadlines(held, now)
            self._check_watchdog()
            due = self._due(held, now)
            if due and (self._beating is None or self._beating.done()):
                self._beating = self._begin(self._beat(due))
            await asyncio.sleep(TICK_SECONDS)

    def _watch_self(self, held: list[Attempt]) -> None:
        """Move the moment at which the watchdog ends this process, or lift it; under the lock."""
        first = _first_overrun(held, boot_clock())
        known = self._self_deadline
        # One that moves on with the time is passed on now and then.
        if first is None or known is None:
            is_news = (first is None) != (known is None)
        else:
            is_news = not known <= first.at <= known + DEADLINE_STEP_SECONDS
        if is_news:
            with suppress(WatchdogLost):  # noticed by itself
                self._arm(first)

    def _arm(self, first: "Overrun | None") -> None:
        self._self_deadline = None if first is None else first.at
        self._code.note_deadline(self._self_deadline, "" if first is None else first.reason)
        self._watchdog.set_own_deadline(self._self_deadline)

    def _check_watchdog(self) -> None:
        if self._is_guarded and not self._watchdog.is_alive():
            self._is_guarded = False
            self._on_failure(WatchdogLost("has died"))

    def _enforce_deadlines(self, held: list[Attempt], now: float) -> None:
        """Stop what is about to overrun its lease, and this process if it does not stop."""
        for attempt in held:
            if attempt.is_over:
                continue
            if now >= attempt.stop_at:
                self._ask_to_stop(attempt, "lost")
            elif attempt.stop_by is not None and now >= attempt.stop_by:
                self._ask_to_stop(attempt, "hard")
            if attempt.in_process and attempt.stuck_at is not None and now >= attempt.stuck_at:
                self._note_stuck(attempt, now)

    def _note_stuck(self, attempt: Attempt, now: float) -> None:
        if now >= attempt.kill_at:
            log.critical(
                "task %s attempt %d does not stop, and its time is over: this worker ends",
                *attempt.key,
            )
            os._exit(EXIT_OVERRUN)
        if attempt not in self._stuck:
            self._stuck.add(attempt)
            self._on_stuck(attempt)

    def _due(self, held: list[Attempt], now: float) -> list[Attempt]:
        """Choose whom to report: leases at half of their time, news of a start or of progress."""
        with_progress = now >= self._progress_at
        due = [attempt for attempt in held if attempt.is_due(now, with_progress=with_progress)]
        if any(attempt.has_news() for attempt in due):
            self._progress_at = now + PROGRESS_EVERY_SECONDS
        return due[:LEASES_PER_BEAT_MAX]

    async def _beat(self, attempts: list[Attempt]) -> None:
        sent_at = boot_clock()
        reports = [attempt.report() for attempt in attempts]
        try:
            answer = await self._call(
                HeartbeatRequest(self._worker_id, reports),
                min(BEAT_SECONDS_MAX, *(attempt.job.lease / 4 for attempt in attempts)),
            )
        except (Unavailable, Refused) as error:
            log.warning("%d leases were not renewed: %s", len(attempts), error)
            for attempt, report in zip(attempts, reports, strict=True):
                attempt.postpone_report(boot_clock())
                if isinstance(error, Refused) and report.progress is not None:
                    attempt.progress_reported = report.progress  # it may be what was refused
            return
        for attempt, report, lease in zip(attempts, reports, answer.leases, strict=True):
            self._note_answer(attempt, report, lease, sent_at=sent_at)
        self._obey(answer)

    def _note_answer(
        self, attempt: Attempt, report: LeaseReport, lease: LeaseAnswer, *, sent_at: float
    ) -> None:
        if lease.error is None:
            attempt.start_reported = attempt.start_reported or report.state is not None
            attempt.progress_reported = report.progress or attempt.progress_reported
            attempt.usage.note_reported(report.usage, boot_clock())
            attempt.renew(sent_at, (lease.lease_remaining_ms or 0) / 1000)
            return
        attempt.postpone_report(boot_clock())
        if lease.error.code == "lease_conflict":
            attempt.lose(boot_clock())  # and the next tick stops it, unless it is over

    async def _listen(self) -> None:
        """Keep one heartbeat waiting at the server, to hear of cancels at once."""
        request = HeartbeatRequest(self._worker_id, [], wait_ms=LISTEN_MS)
        while True:
            try:
                answer = await self._call(request, LISTEN_MS / 1000 + BEAT_SECONDS_MAX)
            except (Unavailable, Refused):
                # Renewals tell the same, and complain for both.
                await asyncio.sleep(spread(AGAIN_SECONDS_MAX))
                continue
            self._obey(answer)
            if answer.drain:
                await asyncio.sleep(AGAIN_SECONDS_MAX)

    async def _call(self, request: HeartbeatRequest, seconds_max: float) -> HeartbeatAnswer:
        return await self._transport.call(
            "POST",
            "/internal/heartbeat",
            HeartbeatAnswer,
            body=request,
            seconds_max=seconds_max,
        )

    def _obey(self, answer: HeartbeatAnswer) -> None:
        for notice in answer.cancel:
            with self._lock:
                attempt = self._held.get((notice.task_id, notice.attempt))
            if attempt is not None and not attempt.is_over:
                self._obey_cancel(attempt, notice)
        if answer.drain:
            self._on_drain()

    def _obey_cancel(self, attempt: Attempt, notice: CancelNotice) -> None:
        if notice.mode == "soft":
            self._ask_to_stop(attempt, "soft", (notice.remaining_ms or 0) / 1000)
        elif _has_timed_out(attempt):
            self._ask_to_stop(attempt, "timeout", attempt.grace)
        else:
            self._ask_to_stop(attempt, "hard")

    def _ask_to_stop(self, attempt: Attempt, mode: StopMode, grace: float | None = None) -> None:
        now = boot_clock()
        by = None if grace is None else now + grace
        if attempt.ask_to_stop(mode, now, by=by):
            self._on_stop(attempt, mode)


def _first_overrun(attempts: Sequence[Attempt], now: float) -> Overrun | None:
    """Find what would first make the watchdog end this process."""
    first: Attempt | None = None
    first_at = math.inf
    for attempt in attempts:
        if attempt.in_process and not attempt.is_over:
            at = min(attempt.fatal_at, _frozen_at(attempt, now))
            if first is None or at < first_at:
                first, first_at = attempt, at
    if first is None:
        return None
    name = "task {} attempt {}".format(*first.key)
    if first_at < first.fatal_at:
        return Overrun(first_at, f"{name} let nothing else run beyond its timeout")
    return Overrun(first_at, f"{name} outlived its lease")


def _frozen_at(attempt: Attempt, now: float) -> float:
    """Say when this process must end if nothing in it runs any more, not even this thread.

    Code that holds the interpreter's lock beyond its timeout keeps everybody from stopping it. As
    long as this is asked, it does not, and the moment moves on.
    """
    if attempt.job.timeout is None:
        return math.inf
    begun_at = now if attempt.started_at is None else attempt.started_at
    return max(begun_at + attempt.job.timeout, now) + FROZEN_SECONDS_MAX


def _has_timed_out(attempt: Attempt) -> bool:
    """Tell a run that took too long from a cancel: the server ends both at once."""
    if attempt.job.timeout is None or attempt.started_at is None or attempt.stop == "soft":
        return False
    begun_at = (
        attempt.started_at if attempt.start_recorded_at is None else attempt.start_recorded_at
    )
    return boot_clock() >= begun_at + attempt.job.timeout
