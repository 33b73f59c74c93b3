"""The leader's heartbeats: a thousand workers under a tick of 5 s, and how soon work reaches them.

The server is a process of its own on an embedded Postgres with fsync on; its CPU is that of the
server process alone, Postgres is told beside it. docs/benchmarks.md says what is counted.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from benchmarks.peers.environment import ROOT
from benchmarks.peers.rounds import cpu_seconds
from holdfast.embedded import EmbeddedPostgres

PROGRAM = Path(sys.executable).with_name("holdfast")
CROWD = "benchmarks.heartbeat_workers"
PROCESSES = 4
SETTLE_SECONDS = 15.0
CORES_MUST, DISPATCH_MS_MUST = 1.0, 1000.0
JOBS_PER_SECOND = 5
READY_SECONDS_MAX = 120.0


@contextmanager
def processes(url: str, workers: int) -> Iterator[tuple[psutil.Process, str]]:
    """Run a server and its workers for the time of a block."""
    command = [str(PROGRAM), "server", "--database-url", url, "--port", "0", "--migrate"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    crowd: list[subprocess.Popen[str]] = []
    try:
        assert server.stdout is not None
        address = next(
            line.rpartition(" ")[2].strip() for line in server.stdout if "serving at" in line
        )
        share = -(-workers // PROCESSES)
        for place in range(PROCESSES):
            count = min(share, workers - place * share)
            crowd.append(
                subprocess.Popen(
                    [sys.executable, "-m", CROWD, address, str(place * share), str(count)],
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                )
            )
        for process in crowd:
            assert process.stdout is not None
            word = process.stdout.readline()
            assert word == "ready\n"
        yield psutil.Process(server.pid), address
    finally:
        for process in [server, *crowd]:  # the server first: it would complain of the others
            process.kill()
            process.wait()


def wait_for_answers(url: str, workers: int) -> None:
    """Wait until every worker has answered once."""
    ends_at = time.monotonic() + READY_SECONDS_MAX
    query = "select count(*) from holdfast.workers where answered_at is not null"
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < ends_at:
            row = connection.execute(query).fetchone()
            if row is not None and row[0] >= workers:
                return
            time.sleep(0.2)
    raise SystemExit("not every worker has answered in time")


def measure_idle(server: psutil.Process, postmaster: int, seconds: float) -> dict[str, float]:
    """Measure what heartbeats alone cost."""
    before, postgres_before = cpu_seconds(server.pid), cpu_seconds(postmaster)
    began = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    return {
        "server_cpu_cores": round((cpu_seconds(server.pid) - before) / passed, 3),
        "postgres_cpu_cores": round((cpu_seconds(postmaster) - postgres_before) / passed, 3),
    }


def submit(address: str) -> int:
    """Submit a job of one placed task; returns its id."""
    body = json.dumps({"entrypoint": {"shell": "true"}}).encode()
    request = urllib.request.Request(
        f"{address}/api/jobs", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return int(json.load(response)["job_id"])


def measure_dispatch(address: str, url: str, jobs: int) -> dict[str, float]:
    """Submit jobs at a steady pace, and see when each was recorded as RUNNING."""
    ids = []
    for _ in range(jobs):
        ids.append(submit(address))
        time.sleep(1 / JOBS_PER_SECOND)
    query = (
        "select extract(epoch from attempts.started_at - tasks.submitted_at) * 1000 "
        "from holdfast.attempts join holdfast.tasks using (job_id, task_index) "
        "where job_id = any(%s)"
    )
    ends_at = time.monotonic() + 60
    with psycopg.connect(url, autocommit=True) as connection:
        times: list[float] = []
        while len(times) < jobs and time.monotonic() < ends_at:
            times = [float(row[0]) for row in connection.execute(query, [ids])]
            time.sleep(0.2)
    assert len(times) == jobs, f"only {len(times)} of {jobs} jobs have run"
    ordered = sorted(times)
    return {
        "dispatch_p50_ms": round(statistics.median(ordered), 1),
        "dispatch_p99_ms": round(ordered[int(len(ordered) * 0.99)], 1),
    }


def read_p99(address: str) -> float:
    """Read from the server's histogram within how many milliseconds 99 of 100 calls ended."""
    text = urllib.request.urlopen(f"{address}/metrics", timeout=10).read().decode()
    buckets = [
        (float(line.split('le="')[1].split('"')[0]), float(line.rpartition(" ")[2]))
        for line in text.splitlines()
        if line.startswith("holdfast_heartbeat_seconds_bucket")
    ]
    total = buckets[-1][1]
    return next(limit for limit, count in buckets if count >= total * 0.99) * 1000


def measure(workers: int, seconds: float, jobs: int) -> dict[str, Any]:
    """Run the whole benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        postgres = EmbeddedPostgres(Path(folder) / "postgres")
        with postgres:
            postgres.create_database("bench")
            url = postgres.url("bench")
            with processes(url, workers) as (server, address):
                wait_for_answers(url, workers)
                time.sleep(SETTLE_SECONDS)
                figures = {
                    "workers": workers,
                    **measure_idle(server, postgres.pid, seconds),
                    "p99_heartbeat_ms": read_p99(address),
                    **measure_dispatch(address, url, jobs),
                    "server_rss_mb": round(server.memory_info().rss / (1 << 20), 1),
                }
    return {
        **figures,
        "musts_hold": figures["server_cpu_cores"] < CORES_MUST
        and figures["dispatch_p50_ms"] < DISPATCH_MS_MUST,
    }


def main() -> None:
    """Measure, and print for people or for programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--jobs", type=int, default=100)
    options = parser.parse_args()
    figures = measure(options.workers, options.seconds, options.jobs)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
