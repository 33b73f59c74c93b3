"""What the processes of claimed attempts use: sampled together, by one look at /proc for all.

A process here has no shim above it that would count. Nor does the largest size that the kernel
tells at its end help: that includes this worker, from which it was forked. So what lives for less
than a first sample has no memory noted, and what ends between two samples is missed.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.process_tree import list_sessions

SAMPLE_SECONDS_MIN = 0.1
SAMPLE_SECONDS_MAX = 5.0
# A command that runs no longer has its usage in its end alone.
SHOWN_AFTER_SECONDS = 1.0
REPORT_SECONDS = 10.0


class UsageNews:
    """What an attempt with a process of its own has used, in the end all of it, and what is told.

    Two fields, a writer each: what is noted while a report is on its way is not lost.
    """

    __slots__ = ("_due_at", "_reported", "latest")

    def __init__(self) -> None:
        self.latest: dict[str, Any] | None = None
        self._reported: dict[str, Any] | None = None
        self._due_at = 0.0

    def note(self, usage: dict[str, Any]) -> None:
        """Note what was used so far."""
        if usage != self.latest:
            self.latest = usage

    def note_all(self, usage: dict[str, Any]) -> None:
        """Note what was used in all: the report of the end brings it, and may be on its way."""
        self._due_at = inf
        self.note(usage)

    def is_due(self, now: float) -> bool:
        """Tell whether there is something to report, after a while since the last time."""
        return self.latest is not self._reported and self._due_at <= now

    def find_news(self) -> dict[str, Any] | None:
        """Say what the server has not heard."""
        latest = self.latest
        return None if latest is self._reported else latest

    def note_reported(self, usage: dict[str, Any] | None, now: float) -> None:
        """Note that the server has heard of it."""
        if usage is not None:
            self._reported = usage
            self._due_at = max(self._due_at, now + REPORT_SECONDS)


class ProcessUsage:
    """The most that the session of one process has held at once."""

    def __init__(self, on_news: Callable[[dict[str, Any]], None]) -> None:
        self.due_at = boot_clock() + SAMPLE_SECONDS_MIN
        self._interval = SAMPLE_SECONDS_MIN
        self._shown_from = boot_clock() + SHOWN_AFTER_SECONDS
        self._on_news = on_news
        self._memory_max = 0
        self._processes_max = 1
        self._cpu_seconds = 0.0

    def add(self, held: dict[int, tuple[int, float]]) -> None:
        """Take a sample: the bytes and the seconds of cpu of each process that lives."""
        self._memory_max = max(self._memory_max, sum(memory for memory, _ in held.values()))
        self._processes_max = max(self._processes_max, len(held))
        self._cpu_seconds = max(self._cpu_seconds, sum(seconds for _, seconds in held.values()))
        self.due_at = boot_clock() + self._interval
        self._interval = min(self._interval * 2, SAMPLE_SECONDS_MAX)
        if boot_clock() >= self._shown_from:
            self._on_news(self._describe())

    def total(self, cpu_seconds: float | None) -> dict[str, Any]:
        """Sum up, with the cpu that the process and those that it waited for have had."""
        self._cpu_seconds = max(self._cpu_seconds, cpu_seconds or 0.0)
        return self._describe()

    def _describe(self) -> dict[str, Any]:
        memory = {"memory_peak_bytes": self._memory_max} if self._memory_max else {}
        return {
            "cpu_seconds": round(self._cpu_seconds, 3),
            **memory,
            "processes_max": self._processes_max,
            "limits": "none",
        }


class UsageSampler:
    """Samples the processes that run, while there are any. One event loop owns it."""

    def __init__(self) -> None:
        self._running: dict[int, ProcessUsage] = {}
        self._sampling: asyncio.Task[None] | None = None

    @contextmanager
    def measure(
        self, leader: int, on_news: Callable[[dict[str, Any]], None]
    ) -> Iterator[ProcessUsage]:
        """Measure the session of a process, and tell now and then what it has used so far."""
        usage = self._running[leader] = ProcessUsage(on_news)
        if self._sampling is None:
            self._sampling = asyncio.create_task(self._sample())
        try:
            yield usage
        finally:
            del self._running[leader]
            if not self._running:
                self._sampling.cancel()
                self._sampling = None

    async def _sample(self) -> None:
        while self._running:
            due_at = min(usage.due_at for usage in self._running.values())
            # New ones that keep coming shall not make it look all the time.
            await asyncio.sleep(max(due_at - boot_clock(), SAMPLE_SECONDS_MIN))
            measured = dict(self._running)
            # In a thread: it reads a file of every process of this host.
            found = await asyncio.to_thread(list_sessions, list(measured))
            for leader, held in found.items():
                if self._running.get(leader) is measured[leader] and held:
                    measured[leader].add(held)
