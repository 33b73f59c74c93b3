"""Drain no-op Python tasks through real server and worker processes, beside its peers.

Everything runs on one embedded Postgres with fsync on, in interleaved rounds, from the first claim
to the last durable acknowledgement. docs/benchmarks.md says what is counted for whom, and why.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

import holdfast as hf
from benchmarks.audited import count_findings
from benchmarks.peers.environment import ROOT
from benchmarks.peers.rounds import TASK_INPUT, Drained, Peer, cpu_seconds, settle, wal_bytes
from benchmarks.queue_tasks import nothing, tell_start
from holdfast.client.task import TaskFunction
from holdfast.embedded import EmbeddedPostgres
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed

PROGRAM = Path(sys.executable).with_name("holdfast")
DRAIN_SECONDS_MAX = 300
LATENCY_PER_SECOND = 50
MB = 1 << 20
# Each peer, and how many tasks it drains, as a share of ours: the slow ones would take minutes.
PEERS = {"pgqueuer": 1.0, "awa": 1.0, "oban": 0.5, "procrastinate": 0.1}
BULK_PEERS = ("pgqueuer", "awa")


class Contender:
    """Holdfast as its users run it: a server process and one worker process, or more of each."""

    def __init__(
        self,
        postmaster: int,
        url: str,
        concurrency: int,
        folder: Path,
        *,
        program: Sequence[str] = (str(PROGRAM),),
        servers: int = 1,
        workers: int = 1,
    ) -> None:
        self._postmaster = postmaster
        self._url = url
        self._program = program
        self._stack = ExitStack()
        self._variables = {**os.environ, "HOLDFAST_WORKER_DIR": str(folder)}
        self._workers: list[subprocess.Popen[str]] = []
        serving = ("server", "--database-url", url, "--port", "0", "--migrate")
        started = [self._start(*serving) for _ in range(servers)]
        self._servers = [process for process, _ in started]
        self._addresses = [address for _, address in started]
        self._concurrency = concurrency
        self.client = self._stack.enter_context(hf.Client(self._addresses[0]))
        self.pause(True)
        self.add_workers(workers)

    def add_workers(self, count: int) -> None:
        """Start more workers, each at the next of the servers."""
        for _ in range(count):
            address = self._addresses[len(self._workers) % len(self._addresses)]
            worker, _ = self._start(
                "worker",
                *("--server", address, "--queue", "bench"),
                *("--concurrency", str(self._concurrency), "--import", "benchmarks.queue_tasks"),
            )
            self._workers.append(worker)

    def fill(
        self,
        count: int,
        task: TaskFunction[Any, None] = nothing,
        inputs: Sequence[Any] | None = None,
    ) -> tuple[float, hf.Job[None]]:
        """Submit no-op tasks through the HTTP API in one call; returns tasks per second."""
        given = [json.loads(TASK_INPUT)] * count if inputs is None else inputs
        began = time.perf_counter()
        job = self.client.map(task, given)
        return count / (time.perf_counter() - began), job

    def drain(
        self,
        count: int,
        task: TaskFunction[Any, None] = nothing,
        inputs: Sequence[Any] | None = None,
    ) -> Drained:
        """Drain what one call filled in; the workers wait at a paused queue until it counts."""
        _, job = self.fill(count, task, inputs)
        settle(self._url)
        wal, before = wal_bytes(self._url), self._cpu_seconds()
        with psycopg.connect(self._url, autocommit=True) as connection:
            self.pause(False)
            began = time.perf_counter()
            self._wait(connection, job.id, count)
            seconds = time.perf_counter() - began
        after, wal = self._cpu_seconds(), wal_bytes(self._url) - wal
        self.pause(True)
        parts = {name: (after[name] - before[name]) * 1e6 / count for name in after}
        return Drained(count / seconds, sum(parts.values()), wal / count, parts)

    def latencies_ms(self, count: int) -> list[float]:
        """Submit one task at a time, at an even pace; from before the call to its function."""
        self.pause(False)
        jobs = []
        next_at = time.perf_counter()
        for number in range(count):
            time.sleep(max(next_at - time.perf_counter(), 0))
            next_at += 1 / LATENCY_PER_SECOND
            began = time.time_ns()
            jobs.append((began, self.client.submit(tell_start, number)))
        latencies = [(job.result(timeout=30) - began) / 1e6 for began, job in jobs]
        self.pause(True)
        return latencies

    @property
    def pids(self) -> tuple[int, int]:
        """Name the processes of server and worker."""
        return self._servers[0].pid, self._workers[0].pid

    def rss_mb(self) -> tuple[float, float]:
        """Read the memory of server and worker after all of that."""
        server, worker = (
            sum(p.memory_info().rss for p in (root, *root.children(recursive=True)))
            for root in (psutil.Process(self._servers[0].pid), psutil.Process(self._workers[0].pid))
        )
        return server / MB, worker / MB

    def audit(self) -> int:
        """Count what the audit finds in the ledger."""
        return count_findings(self._url)

    def stop(self) -> None:
        """End all processes, the workers first."""
        self._stack.close()
        for processes in (self._workers, self._servers):
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(60)

    def _cpu_seconds(self) -> dict[str, float]:
        return {
            "server": cpu_seconds(*(process.pid for process in self._servers)),
            "worker": cpu_seconds(*(process.pid for process in self._workers)),
            "postgres": cpu_seconds(self._postmaster),
        }

    def _start(self, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [*self._program, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self._variables,
        )
        self._stack.callback(process.stdout.close)  # type: ignore[union-attr]
        assert process.stdout is not None
        line = process.stdout.readline() if arguments[0] == "server" else ""
        return process, line.split()[-1] if line else ""

    def pause(self, paused: bool) -> None:
        """Keep tasks back from the workers, or let them claim as tasks come."""
        path = f"/api/queues/bench:{'pause' if paused else 'resume'}"
        self.client.loop_thread.run(self.client.change(path, Nothing(), Changed))

    def _wait(self, connection: psycopg.Connection, job_id: str, count: int) -> None:
        ends_at = time.perf_counter() + DRAIN_SECONDS_MAX
        query = "select succeeded, finished_at is not null from holdfast.jobs where job_id = %s"
        while time.perf_counter() < ends_at:
            row = connection.execute(query, [int(job_id)]).fetchone()
            if row == (count, True):
                return
            time.sleep(0.002)
        raise RuntimeError(f"job {job_id} was not drained within {DRAIN_SECONDS_MAX} s")


@contextmanager
def running(options: argparse.Namespace) -> Iterator[tuple[Contender, dict[str, Peer]]]:
    """Start Postgres and make every contender ready in a database of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        postgres = EmbeddedPostgres(folder / "postgres")
        postgres.start()
        try:
            peers = {name: Peer(name, postgres.pid) for name in options.peers}
            for peer in peers.values():
                postgres.create_database(peer.name)
                peer.prepare(postgres.url(peer.name))
            postgres.create_database("holdfast")
            url = postgres.url("holdfast")
            ours = Contender(
                postgres.pid, url, options.concurrency, folder, workers=options.workers
            )
            try:
                yield ours, peers
            finally:
                ours.stop()
        finally:
            postgres.stop()


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Measure every contender in turn, round by round."""
    with running(options) as (holdfast, peers):
        holdfast.drain(options.tasks // 4)  # plans and caches are warm for the peers' own start too
        drained: dict[str, list[Drained]] = {name: [] for name in ("holdfast", *peers)}
        for _ in range(options.rounds):
            drained["holdfast"].append(holdfast.drain(options.tasks))
            for name, peer in peers.items():
                count = int(options.tasks * PEERS[name])
                peer.fill(count)
                drained[name].append(peer.drain(count, options.workers))
        if options.workers > 1:
            found = {**_compare(drained), "audit_findings": holdfast.audit()}
            return {f"{name}_{options.workers}_workers": value for name, value in found.items()}
        return {
            **_compare(drained),
            **_latencies(holdfast, peers, options.latency_tasks),
            **_bulk(holdfast, peers, options),
            **dict(zip(("rss_server_mb", "rss_worker_mb"), holdfast.rss_mb(), strict=True)),
            "audit_findings": holdfast.audit(),
        }


def _compare(drained: dict[str, list[Drained]]) -> dict[str, float]:
    found = {
        f"{name}_per_s": _median([d.per_s for d in rounds]) for name, rounds in drained.items()
    }
    ours = found["holdfast_per_s"]
    found |= {f"ratio_{name}": ours / found[f"{name}_per_s"] for name in drained if name in PEERS}
    for name, rounds in drained.items():
        prefix = f"{name}_" if name in PEERS else ""
        found[f"{prefix}cpu_us_per_task"] = _median([d.cpu_us_per_task for d in rounds])
        found[f"{prefix}wal_bytes_per_task"] = _median([d.wal_bytes_per_task for d in rounds])
    for part in ("server", "worker", "postgres"):
        found[f"{part}_us_per_task"] = _median([d.parts[part] for d in drained["holdfast"]])
    return found


def _latencies(holdfast: Contender, peers: dict[str, Peer], count: int) -> dict[str, float]:
    found = {}
    taken = {"": holdfast.latencies_ms(count)}
    taken |= {
        f"{name}_": peer.latencies_ms(count, LATENCY_PER_SECOND) for name, peer in peers.items()
    }
    for prefix, latencies in taken.items():
        latencies.sort()
        found[f"{prefix}latency_p50_ms"] = latencies[len(latencies) // 2]
        found[f"{prefix}latency_p99_ms"] = latencies[int(len(latencies) * 0.99)]
    return found


def _bulk(
    holdfast: Contender, peers: dict[str, Peer], options: argparse.Namespace
) -> dict[str, float]:
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in BULK_PEERS if name in peers}
    for _ in range(options.rounds):
        rate, job = holdfast.fill(options.bulk)
        ours.append(rate)
        job.cancel(mode="hard")
        job.wait(120)
        for name, rates in theirs.items():
            rates.append(peers[name].fill(options.bulk))
    found = {f"{name}_bulk_per_s": _median(rates) for name, rates in theirs.items()}
    return {"submit_bulk_per_s": _median(ours), **found}


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"no peer {name!r}; there are {', '.join(PEERS)}")
    return names


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--bulk", type=int, default=50_000)
    parser.add_argument("--latency-tasks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=1000)
    parser.add_argument("--peers", type=_names, default=list(PEERS), help="some, by commas")
    parser.add_argument("--workers", type=int, default=1, help="worker processes of each contender")
    found = {name: round(value, 3) for name, value in measure(parser.parse_args()).items()}
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:26} {value:12,.2f}")


if __name__ == "__main__":
    main()
