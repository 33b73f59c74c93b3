"""Drain no-op Python tasks through real server and worker processes, beside two peers.

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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import psycopg

import holdfast as hf
from benchmarks.peers.environment import ROOT
from benchmarks.peers.rounds import TASK_INPUT, Drained, Peer, cpu_seconds, settle, wal_bytes
from benchmarks.queue_tasks import nothing, tell_start
from holdfast.embedded import EmbeddedPostgres
from holdfast.wire.requests import Nothing
from holdfast.wire.status import Changed

PROGRAM = Path(sys.executable).with_name("holdfast")
DRAIN_SECONDS_MAX = 300
LATENCY_PER_SECOND = 50
MB = 1 << 20


class Contender:
    """Holdfast as its users run it: a server process, and one worker process."""

    def __init__(self, postmaster: int, url: str, concurrency: int, folder: Path) -> None:
        self._postmaster = postmaster
        self._url = url
        self._stack = ExitStack()
        self._variables = {**os.environ, "HOLDFAST_WORKER_DIR": str(folder)}
        self._server, address = self._start(
            "server", "--database-url", url, "--port", "0", "--migrate"
        )
        self.client = self._stack.enter_context(hf.Client(address))
        self._pause(True)
        self._worker, _ = self._start(
            "worker",
            *("--server", address, "--queue", "bench", "--concurrency", str(concurrency)),
            *("--import", "benchmarks.queue_tasks"),
        )

    def fill(self, count: int) -> tuple[float, hf.Job[None]]:
        """Submit no-op tasks through the HTTP API in one call; returns tasks per second."""
        inputs = [json.loads(TASK_INPUT)] * count
        began = time.perf_counter()
        job = self.client.map(nothing, inputs)
        return count / (time.perf_counter() - began), job

    def drain(self, count: int) -> Drained:
        """Drain what one call filled in; the worker waits at a paused queue until it counts."""
        _, job = self.fill(count)
        settle(self._url)
        pids = (self._postmaster, self._server.pid, self._worker.pid)
        wal, cpu = wal_bytes(self._url), cpu_seconds(*pids)
        with psycopg.connect(self._url, autocommit=True) as connection:
            self._pause(False)
            began = time.perf_counter()
            self._wait(connection, job.id, count)
            seconds = time.perf_counter() - began
        cpu, wal = cpu_seconds(*pids) - cpu, wal_bytes(self._url) - wal
        self._pause(True)
        return Drained(count / seconds, cpu * 1e6 / count, wal / count)

    def latencies_ms(self, count: int) -> list[float]:
        """Submit one task at a time, at an even pace; from before the call to its function."""
        self._pause(False)
        jobs = []
        next_at = time.perf_counter()
        for number in range(count):
            time.sleep(max(next_at - time.perf_counter(), 0))
            next_at += 1 / LATENCY_PER_SECOND
            began = time.time_ns()
            jobs.append((began, self.client.submit(tell_start, number)))
        latencies = [(job.result(timeout=30) - began) / 1e6 for began, job in jobs]
        self._pause(True)
        return latencies

    def rss_mb(self) -> tuple[float, float]:
        """Read the memory of server and worker after all of that."""
        server, worker = (
            sum(p.memory_info().rss for p in (root, *root.children(recursive=True)))
            for root in (psutil.Process(self._server.pid), psutil.Process(self._worker.pid))
        )
        return server / MB, worker / MB

    def stop(self) -> None:
        """End both processes, the worker first."""
        self._stack.close()
        for process in (self._worker, self._server):
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    def _start(self, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [str(PROGRAM), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self._variables,
        )
        self._stack.callback(process.stdout.close)  # type: ignore[union-attr]
        assert process.stdout is not None
        line = process.stdout.readline() if arguments[0] == "server" else ""
        return process, line.split()[-1] if line else ""

    def _pause(self, paused: bool) -> None:
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
def running(concurrency: int) -> Iterator[tuple[Contender, Peer, Peer]]:
    """Start Postgres and make every contender ready in a database of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        postgres = EmbeddedPostgres(folder / "postgres")
        postgres.start()
        try:
            urls = {}
            for contender in ("holdfast", "pgqueuer", "procrastinate"):
                postgres.create_database(contender)
                urls[contender] = postgres.url(contender)
            peers = [Peer(name, postgres.pid) for name in ("pgqueuer", "procrastinate")]
            for peer in peers:
                peer.prepare(urls[peer.name])
            holdfast = Contender(postgres.pid, urls["holdfast"], concurrency, folder)
            try:
                yield holdfast, peers[0], peers[1]
            finally:
                holdfast.stop()
        finally:
            postgres.stop()


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Measure every contender in turn, round by round."""
    drained: dict[str, list[Drained]] = {"holdfast": [], "pgqueuer": [], "procrastinate": []}
    bulk: dict[str, list[float]] = {"holdfast": [], "pgqueuer": []}
    with running(options.concurrency) as (holdfast, pgqueuer, procrastinate):
        holdfast.drain(options.tasks // 4)  # plans and caches are warm for the peers' own start too
        for _ in range(options.rounds):
            drained["holdfast"].append(holdfast.drain(options.tasks))
            pgqueuer.fill(options.tasks)
            drained["pgqueuer"].append(pgqueuer.drain(options.tasks))
            procrastinate.fill(options.tasks // 10)
            drained["procrastinate"].append(procrastinate.drain(options.tasks // 10))
        latencies = sorted(holdfast.latencies_ms(options.latency_tasks))
        for _ in range(options.rounds):
            rate, job = holdfast.fill(options.bulk)
            bulk["holdfast"].append(rate)
            job.cancel(mode="hard")
            job.wait(120)
            bulk["pgqueuer"].append(pgqueuer.fill(options.bulk))
        rss_server, rss_worker = holdfast.rss_mb()
    ours, peer = drained["holdfast"], drained["pgqueuer"]
    per_s = {name: _median([d.per_s for d in rounds]) for name, rounds in drained.items()}
    return {
        **{f"{name}_per_s": rate for name, rate in per_s.items()},
        "ratio_pgqueuer": per_s["holdfast"] / per_s["pgqueuer"],
        "ratio_procrastinate": per_s["holdfast"] / per_s["procrastinate"],
        "latency_p50_ms": latencies[len(latencies) // 2],
        "latency_p99_ms": latencies[int(len(latencies) * 0.99)],
        "submit_bulk_per_s": _median(bulk["holdfast"]),
        "pgqueuer_bulk_per_s": _median(bulk["pgqueuer"]),
        "cpu_us_per_task": _median([d.cpu_us_per_task for d in ours]),
        "pgqueuer_cpu_us_per_task": _median([d.cpu_us_per_task for d in peer]),
        "wal_bytes_per_task": _median([d.wal_bytes_per_task for d in ours]),
        "rss_server_mb": rss_server,
        "rss_worker_mb": rss_worker,
    }


def _median(values: list[float]) -> float:
    return statistics.median(values)


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--bulk", type=int, default=50_000)
    parser.add_argument("--latency-tasks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=500)
    found = {name: round(value, 3) for name, value in measure(parser.parse_args()).items()}
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:26} {value:12,.2f}")


if __name__ == "__main__":
    main()
