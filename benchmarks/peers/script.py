"""What the scripts of the peers have alike: their commands, and how a drain is timed from inside.

Run by the environment of a peer, so nothing is imported here but the standard library.

    python -m benchmarks.peers.NAME_peer URL install
    python -m benchmarks.peers.NAME_peer URL fill COUNT INPUT
    python -m benchmarks.peers.NAME_peer URL work COUNT
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Protocol


class Drain:
    """The stretch of a drain: from the first fetch to the last acknowledgement that was committed.

    A peer tells from within: polling from outside would cost it CPU, and be as coarse as the poll.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._done = 0
        self._started: tuple[float, float] | None = None
        self._ended: tuple[float, float] | None = None
        self.stop: Callable[[], object] = lambda: None

    def fetch(self) -> None:
        """Note that the worker asks for tasks; the first time starts the clock."""
        if self._started is None:
            self._started = _clocks()

    def acknowledge(self, count: int) -> None:
        """Note that so many acknowledgements are committed; the last stops clock and worker."""
        self._done += count
        if self._done >= self._count and self._ended is None:
            self._ended = _clocks()
            self.stop()

    def figures(self) -> dict[str, float]:
        """Give the seconds taken, and the CPU seconds of this process within them."""
        assert self._started is not None, "the worker never asked for a task"
        assert self._ended is not None, f"{self._done} of {self._count} tasks were acknowledged"
        return {
            "seconds": self._ended[0] - self._started[0],
            "count": self._done,
            "cpu_seconds": self._ended[1] - self._started[1],
        }


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


class Library(Protocol):
    """What a peer has to be able to do."""

    async def install(self, url: str) -> None:
        """Create its tables."""

    async def fill(self, url: str, count: int, task_input: str) -> float:
        """Enqueue many tasks in bulk; returns the seconds taken."""

    async def work(self, url: str, drain: Drain) -> None:
        """Connect, call `await_start`, and work until the drain stops it."""


def await_start() -> None:
    """Say that the worker is connected, and wait for a line that lets it begin."""
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()


async def main(library: Library) -> None:
    """Read the command, run it, print what came of it as one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    fill = commands.add_parser("fill")
    fill.add_argument("count", type=int)
    fill.add_argument("input")
    commands.add_parser("work").add_argument("count", type=int)
    options = parser.parse_args()
    figures: dict[str, float] = {}
    if options.command == "install":
        await library.install(options.url)
    elif options.command == "fill":
        seconds = await library.fill(options.url, options.count, options.input)
        figures = {"seconds": seconds, "count": options.count}
    else:
        drain = Drain(options.count)
        await library.work(options.url, drain)
        figures = drain.figures()
    print(json.dumps(figures), flush=True)
