"""What the scripts of the peers have alike: their commands, and how a drain is timed from inside.

Run by the environment of a peer, so nothing is imported here but the standard library.

    python -m benchmarks.peers.NAME_peer URL install
    python -m benchmarks.peers.NAME_peer URL fill COUNT INPUT
    python -m benchmarks.peers.NAME_peer URL work COUNT TALLY SLOT
    python -m benchmarks.peers.NAME_peer URL send COUNT PER_SECOND
    python -m benchmarks.peers.NAME_peer URL listen COUNT
"""

import argparse
import asyncio
import json
import mmap
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

SLOTS_MAX = 16
SLOT_BYTES = 8
WATCH_SECONDS = 0.02


class Tally:
    """How many tasks each worker of a drain has acknowledged, in a file that all of them map."""

    def __init__(self, path: Path, slot: int) -> None:
        with path.open("r+b") as file:
            self._counts = memoryview(mmap.mmap(file.fileno(), SLOTS_MAX * SLOT_BYTES)).cast("q")
        self._slot = slot

    @staticmethod
    def create(path: Path) -> None:
        """Make the file of a drain, every count at zero."""
        path.write_bytes(bytes(SLOTS_MAX * SLOT_BYTES))

    def add(self, count: int) -> int:
        """Add to the count of this worker; returns that of all."""
        self._counts[self._slot] += count
        return sum(self._counts)


class Run:
    """What a peer tells while it works. By itself, it counts nothing and nothing stops it."""

    is_first = True
    # A worker that is to tell how late its tasks start is given them here.
    started: Callable[[int], None] | None = None

    def __init__(self, count: int) -> None:
        self.count = count
        self.stop: Callable[[], object] = lambda: None

    def fetch(self) -> None:
        """Note that the worker asks for tasks."""

    def acknowledge(self, count: int) -> None:
        """Note that so many acknowledgements are committed."""


class Drain(Run):
    """The stretch of a drain: from the first fetch to the last acknowledgement that was committed.

    A peer tells from within: polling from outside would cost it CPU, and be as coarse as the poll.
    """

    def __init__(self, count: int, tally: Tally, *, is_first: bool) -> None:
        super().__init__(count)
        self.is_first = is_first
        self._tally = tally
        self._done = 0
        self._began: float | None = None
        self._ended: float | None = None
        self._cpu_began = self._cpu_ended = 0.0

    def fetch(self) -> None:
        """Start the clock, the first time."""
        if self._began is None:
            self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def acknowledge(self, count: int) -> None:
        """Note the time, and stop the worker if these are the last of all."""
        self._done += count
        self._ended = time.perf_counter()
        if self._tally.add(count) >= self.count:
            self._finish()

    async def watch(self) -> None:
        """Stop this worker when the others have done the rest."""
        while self._tally.add(0) < self.count:  # noqa: ASYNC110 - others set no event
            await asyncio.sleep(WATCH_SECONDS)
        self._finish()

    def figures(self) -> dict[str, object]:
        """Give begin and end on the clock of the machine, and the CPU seconds between them.

        A worker whose fellows were quicker may have neither.
        """
        cpu_seconds = self._cpu_ended - self._cpu_began if self._began is not None else 0.0
        return {
            "began": self._began,
            "ended": self._ended,
            "count": self._done,
            "cpu_seconds": cpu_seconds,
        }

    def _finish(self) -> None:
        self._cpu_ended = self._cpu_ended or time.process_time()
        self.stop()


class Listening(Run):
    """Tasks that carry the time when they were sent, each noted as it starts."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.latencies_ms: list[float] = []
        self.started = self._start

    def _start(self, sent_ns: int) -> None:
        self.latencies_ms.append((time.time_ns() - sent_ns) / 1e6)
        if len(self.latencies_ms) >= self.count:
            self.stop()


# Enqueues one task that carries a number.
Put = Callable[[int], Awaitable[object]]


class Library(Protocol):
    """What a peer has to be able to do."""

    async def install(self, url: str) -> None:
        """Create its tables."""

    async def fill(self, url: str, count: int, task_input: str) -> float:
        """Enqueue many tasks in bulk; returns the seconds taken."""

    def producing(self, url: str) -> AbstractAsyncContextManager[Put]:
        """Connect, to enqueue one task at a time."""

    async def work(self, url: str, run: Run) -> None:
        """Connect, call `await_start`, and work until the run stops it."""


@asynccontextmanager
async def watched(run: Run) -> AsyncIterator[None]:
    """Have a drain stopped by the other workers' counts while a worker works."""
    watching = asyncio.create_task(run.watch()) if isinstance(run, Drain) else None
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()


def await_start() -> None:
    """Say that the worker is connected, and wait for a line that lets it begin."""
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()


async def _send(put: Put, count: int, per_second: float) -> None:
    next_at = time.perf_counter()
    for _ in range(count):
        await asyncio.sleep(max(next_at - time.perf_counter(), 0))
        next_at += 1 / per_second
        await put(time.time_ns())


async def main(library: Library) -> None:
    """Read the command, run it, print what came of it as one JSON line."""
    options = _parse()
    figures: dict[str, object] = {}
    if options.command == "install":
        await library.install(options.url)
    elif options.command == "fill":
        seconds = await library.fill(options.url, options.count, options.input)
        figures = {"seconds": seconds, "count": options.count}
    elif options.command == "send":
        async with library.producing(options.url) as put:
            await _send(put, options.count, options.per_second)
    elif options.command == "listen":
        listening = Listening(options.count)
        await library.work(options.url, listening)
        figures = {"latencies_ms": listening.latencies_ms}
    else:
        tally = Tally(options.tally, options.slot)
        drain = Drain(options.count, tally, is_first=options.slot == 0)
        await library.work(options.url, drain)
        figures = drain.figures()
    print(json.dumps(figures), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    for name in ("fill", "work", "send", "listen"):
        commands.add_parser(name).add_argument("count", type=int)
    commands.choices["fill"].add_argument("input")
    commands.choices["work"].add_argument("tally", type=Path)
    commands.choices["work"].add_argument("slot", type=int)
    commands.choices["send"].add_argument("per_second", type=float)
    return parser.parse_args()
