"""The attempts of a worker, from the call that brings one until its end is acknowledged."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal
from weakref import WeakSet

from holdfast.tracing.current import describe
from holdfast.worker.exit_codes import EXIT_BROKEN
from holdfast.worker.placed.attempt import PlacedAttempt
from holdfast.worker.placed.held import Held
from holdfast.worker.placed.runner import PlacedRunner

log = logging.getLogger("holdfast.placed")


class HeldAttempts(Held):
    """What a worker runs, and what has ended there and has not been acknowledged."""

    def __init__(self, runner: PlacedRunner) -> None:
        super().__init__()
        self._runner = runner
        self._running: dict[PlacedAttempt, asyncio.Task[None]] = {}
        self._removing: set[asyncio.Task[None]] = set()
        self._has_dropped = asyncio.Event()
        self._broken: WeakSet[PlacedAttempt] = WeakSet()

    @property
    def running_count(self) -> int:
        """How many run."""
        return len(self._running)

    async def open(self) -> None:
        """Be ready to begin attempts. Raises OSError if this host cannot."""
        await self._runner.open()

    def take_over(self, attempt: PlacedAttempt) -> None:
        """Hold an attempt that has a shim, and follow it to its end unless that is known."""
        self._held[attempt.key] = attempt
        if not attempt.is_over:
            self._run(attempt, self._runner.take_over(attempt))

    def _begin(self, attempt: PlacedAttempt) -> None:
        self._run(attempt, self._runner.run(attempt))

    def _clear_away(self, attempt: PlacedAttempt) -> None:
        self._has_dropped.set()
        removal = asyncio.create_task(asyncio.to_thread(attempt.remove))
        self._removing.add(removal)
        removal.add_done_callback(self._end_removal)

    async def wait_for_an_end(self, seconds_max: float) -> None:
        """Wait until an attempt that runs has ended, but not for longer than that."""
        tasks = [*self._running.values()]
        await asyncio.wait(tasks, timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED)

    async def stop_all(self, mode: Literal["hard", "handed_back"], seconds_max: float) -> None:
        """End everything that runs, and wait until it is gone, but not for longer than that."""
        for attempt in self._running:
            attempt.ask_to_stop(mode)
        if self._running:
            await asyncio.wait([*self._running.values()], timeout=seconds_max)

    async def wait_until_empty(self, seconds_max: float) -> None:
        """Wait until nothing is held any more, but not for longer than that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                while self._held:
                    self._has_dropped.clear()
                    await self._has_dropped.wait()

    async def abandon(self) -> None:
        """Follow nothing any more: what still runs has shims, and the next worker takes it over."""
        following = [*self._running.values()]
        for task in following:
            task.cancel()
        if following or self._removing:
            await asyncio.wait([*following, *self._removing])
        await self._runner.close()

    def _run(self, attempt: PlacedAttempt, work: Coroutine[Any, Any, None]) -> None:
        self._running[attempt] = task = asyncio.create_task(work)
        task.add_done_callback(lambda task: self._end_run(attempt, task))

    def _end_run(self, attempt: PlacedAttempt, task: asyncio.Task[None]) -> None:
        self._running.pop(attempt, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        log.critical(
            "task %s attempt %d broke its worker",
            *attempt.key,
            exc_info=error,
            extra=describe(attempt),
        )
        if attempt in self._broken:
            os._exit(EXIT_BROKEN)  # whoever comes next takes its shim over, or ends it
        if not attempt.is_over:
            self._broken.add(attempt)
            self._run(attempt, self._runner.give_up(attempt, error))

    def _end_removal(self, removal: asyncio.Task[None]) -> None:
        self._removing.discard(removal)
        if not removal.cancelled() and (error := removal.exception()) is not None:
            log.error("the folder of an attempt is left behind", exc_info=error)
