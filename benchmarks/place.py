"""Placed work: jobs per second, gangs, the time to the user's process, and what a task costs.

`real`: a server, a ledger with fsync on, four workers and their shims, in turns with Slurm where
that is installed. `simulated`: thousands of workers that speak the protocol on sockets of their own
and run nothing, so that what is measured is the leader. docs/benchmarks.md says what is counted.
"""

import argparse
import asyncio
import json
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.peers.slurm import Slurm, is_installed
from benchmarks.place_cluster import RealCluster, measure_simulated

# Four members of gangs share a core: 64 of them run on each node, and so all 50 gangs at once.
SIZE = {"nodes": 4, "cores": 16, "share": 4}
GANG_SIZE = 4
WARM_UP_JOBS = 100
# Of the jobs: what Slurm is given one by one, to see whether an array is its best.
ONE_BY_ONE_SHARE = 0.25
LATENCY_PER_SECOND = 5
SETTLE_SECONDS = 1.0
LOOK_SECONDS = 0.02
SAID_SECONDS_MAX = 120.0
LATENCY_MS_MUST, CPU_MS_MUST = 60.0, 15.0
JOBS_MUST, GANGS_MUST = 1.5, 1.0


class Contender(Protocol):
    """What runs placed work: Holdfast, or Slurm."""

    def run_jobs(self, count: int) -> float:
        """Run one-task jobs; seconds from the first submission to the last end on record."""

    def run_gangs(self, count: int, size: int, text: str) -> None:
        """Run gangs, each member on a node of its own."""

    def submit(self, text: str) -> None:
        """Submit one job."""

    def cpu_seconds(self) -> dict[str, float]:
        """Read the CPU seconds of each component so far."""

    def stop(self) -> None:
        """End all of it."""


AnyContender = TypeVar("AnyContender", bound=Contender)


class Measured:
    """What one contender came to, round by round."""

    def __init__(self, contender: Contender, folder: Path) -> None:
        self.contender = contender
        self._folder = folder
        self._numbers = count()
        self._found: dict[str, list[float]] = defaultdict(list)
        self._latencies: dict[str, list[float]] = defaultdict(list)

    def measure_jobs(self, jobs: int) -> None:
        """Measure the rate of one-task jobs, and their CPU."""
        before = self.contender.cpu_seconds()
        self._found["jobs_per_s"].append(jobs / self.contender.run_jobs(jobs))
        time.sleep(SETTLE_SECONDS)  # what is cleaned up behind the last ones belongs to them
        after = self.contender.cpu_seconds()
        spent = {name: (after[name] - before[name]) * 1000 / jobs for name in before}
        for name, milliseconds in spent.items():
            self._found[f"{name}_ms"].append(milliseconds)
        self._found["cpu_ms_per_task"].append(sum(spent.values()))

    def measure_rate(self, name: str, jobs: int, run: Callable[[int], float]) -> None:
        """Measure another rate."""
        self._found[name].append(jobs / run(jobs))

    def measure_gangs(self, gangs: int) -> None:
        """Measure how soon the last member of the last gang says what time it is."""
        said = self._file()
        began = time.time()
        self.contender.run_gangs(gangs, GANG_SIZE, f"date +%s.%N >> {said}; exec sleep 2")
        instants = [float(line) for line in said.read_text().split()]
        assert len(instants) == gangs * GANG_SIZE, f"{len(instants)} members have run"
        self._found["gangs_started_s"].append(max(instants) - began)

    def measure_latency(self, name: str, jobs: int, submit: Callable[[str], None]) -> None:
        """Submit at a steady pace, and see how soon the user's process says what time it is."""
        began: dict[Path, float] = {}
        for _ in range(jobs):
            said = self._file()
            began[said] = time.time()
            submit(f"date +%s.%N > {said}")
            time.sleep(max(0.0, began[said] + 1 / LATENCY_PER_SECOND - time.time()))
        self._latencies[name] += [(_read(said) - at) * 1000 for said, at in began.items()]

    def figures(self) -> dict[str, float]:
        """Give the medians of all rounds."""
        figures = {name: round(statistics.median(all_), 2) for name, all_ in self._found.items()}
        for name, latencies in self._latencies.items():
            ordered = sorted(latencies)
            figures[f"{name}_p50_ms"] = round(statistics.median(ordered), 1)
            figures[f"{name}_p99_ms"] = round(ordered[int(len(ordered) * 0.99)], 1)
        return figures

    def _file(self) -> Path:
        return self._folder / f"said{next(self._numbers)}"


def _read(said: Path) -> float:
    """Wait until a process has written down an instant."""
    ends_at = time.monotonic() + SAID_SECONDS_MAX
    while not (said.exists() and (text := said.read_text()).endswith("\n")):
        assert time.monotonic() < ends_at, f"{said} was not written"
        time.sleep(LOOK_SECONDS)
    return float(text)


@contextmanager
def measuring(begin: Callable[[Path], AnyContender]) -> Iterator[tuple[AnyContender, Measured]]:
    """Run a contender for the time of a block."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        contender = begin(Path(name))
        stack.callback(contender.stop)
        contender.run_jobs(WARM_UP_JOBS)
        yield contender, Measured(contender, Path(name))


def measure_real(options: argparse.Namespace) -> dict[str, Any]:
    """Measure four workers, in turns with four nodes of Slurm if that is here."""
    with ExitStack() as stack:
        cluster, ours = stack.enter_context(measuring(lambda folder: RealCluster(folder, **SIZE)))
        if options.slurm:
            slurm, theirs = stack.enter_context(measuring(lambda folder: Slurm(folder, **SIZE)))
        for _ in range(options.rounds):
            ours.measure_jobs(options.jobs)
            if options.slurm:
                theirs.measure_jobs(options.jobs)
                few = max(1, int(options.jobs * ONE_BY_ONE_SHARE))
                theirs.measure_rate("one_by_one_per_s", few, slurm.run_jobs_one_by_one)
            ours.measure_gangs(options.gangs)
            ours.measure_latency("latency", options.latencies, cluster.submit)
            if options.slurm:
                theirs.measure_gangs(options.gangs)
                theirs.measure_latency("latency", options.latencies, slurm.submit)
                theirs.measure_latency("srun_latency", options.latencies, slurm.run_attached)
        cluster.audit()
        figures: dict[str, Any] = {"real": ours.figures()}
        if options.slurm:
            figures["slurm"] = theirs.figures()
            figures["beside_slurm"] = compare(figures["real"], figures["slurm"])
    real = figures["real"]
    real["musts_hold"] = (
        real["latency_p50_ms"] <= LATENCY_MS_MUST and real["cpu_ms_per_task"] <= CPU_MS_MUST
    )
    return figures


def compare(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, Any]:
    """Put our figures beside the better of Slurm's: above 1, Holdfast is faster."""
    theirs_per_s = max(theirs["jobs_per_s"], theirs["one_by_one_per_s"])
    jobs = ours["jobs_per_s"] / theirs_per_s
    gangs = theirs["gangs_started_s"] / ours["gangs_started_s"]
    return {
        "ratio_slurm_jobs": round(jobs, 2),
        "ratio_slurm_gangs": round(gangs, 2),
        "ratio_slurm_latency": round(theirs["latency_p50_ms"] / ours["latency_p50_ms"], 2),
        "ratio_slurm_cpu": round(theirs["cpu_ms_per_task"] / ours["cpu_ms_per_task"], 2),
        "musts_hold": jobs >= JOBS_MUST and gangs >= GANGS_MUST,
    }


def _interrupt(*_: object) -> None:
    """Have a request to terminate end the benchmark as Ctrl-C does: with all that it has begun."""
    raise KeyboardInterrupt


def main() -> None:
    """Measure, and print for people or for programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--gangs", type=int, default=50)
    parser.add_argument("--latencies", type=int, default=25)
    parser.add_argument("--slurm", action=argparse.BooleanOptionalAction, default=is_installed())
    parser.add_argument("--simulated", type=int, nargs="*", default=[1000, 5000])
    parser.add_argument("--simulated-jobs", type=int, default=5000)
    parser.add_argument("--simulated-gangs", type=int, default=500)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    figures: dict[str, Any] = {}
    if options.jobs:
        if not options.slurm:
            print("bench: without Slurm (Debian: slurm-wlm)", file=sys.stderr)
        figures = measure_real(options)
    for workers in options.simulated:
        figures[f"simulated_{workers}"] = asyncio.run(
            measure_simulated(workers, options.simulated_jobs, options.simulated_gangs)
        )
    if options.json:
        print(json.dumps(figures))
        return
    for part, found in figures.items():
        for name, value in found.items():
            print(f"{part:16} {name:26} {value}")


if __name__ == "__main__":
    main()
