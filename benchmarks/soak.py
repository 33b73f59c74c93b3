"""Run for minutes at half of the measured maximum, with tokens and TLS, and see what grows.

First the maximum: no-op tasks are drained through real server and worker processes for a while.
Then small jobs are submitted at an even pace, half of that, and every 10 s it is noted how it all
stands. It prints a line a minute, and how the last quarter compares with the first.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import psutil
import psycopg

from benchmarks.access import ask_and_encrypt
from benchmarks.peers.rounds import settle
from benchmarks.queue import MB, Contender
from benchmarks.queue_tasks import nothing
from benchmarks.ways import variables
from holdfast.embedded import EmbeddedPostgres

SAMPLE_SECONDS = 10.0
SHARE = 0.5
# Tasks of a job; each job is a request of its own, as programs submit them.
JOB_TASKS = 20
FILL_TASKS = 10_000
SUBMITTERS = 4
# Their rows come and go; the other tables keep what happened, and grow with it.
QUEUE_TABLES = ("ready", "leases", "waiting", "outbox")
STAND = """
select coalesce(sum(succeeded), 0)::bigint,
       coalesce(sum(pending + assigned + building + running), 0)::bigint,
       coalesce(max(job_id), 0)
  from holdfast.jobs"""
# Of jobs that came in before the last look, so that all of their tasks should have started.
LATENCIES = """
select extract(epoch from attempts.started_at - jobs.submitted_at)::float8 * 1000
  from holdfast.jobs join holdfast.attempts using (job_id)
 where jobs.job_id > %s and jobs.job_id <= %s and attempts.started_at is not null"""
TABLES = """
select coalesce(sum(pg_stat_get_dead_tuples(oid)) filter (where relname = any (%(queues)s)), 0),
       coalesce(sum(pg_stat_get_dead_tuples(oid)), 0),
       coalesce(sum(pg_total_relation_size(oid)) filter (where relname = any (%(queues)s)), 0),
       coalesce(sum(pg_total_relation_size(oid)), 0)
  from pg_class where relnamespace = 'holdfast'::regnamespace and relkind = 'r'"""


@dataclass(frozen=True, slots=True)
class Sample:
    """How it all stood at one moment, and how it went since the one before."""

    minutes: float
    tasks_per_s: float
    backlog: float
    latency_p50_ms: float
    latency_p99_ms: float
    server_mb: float
    worker_mb: float
    postgres_mb: float
    server_files: float
    worker_files: float
    queue_dead_rows: float
    dead_rows: float
    queue_tables_mb: float
    tables_mb: float


# What must not grow; backlog and dead rows come and go, so their means are compared as well.
FLAT = tuple(set(Sample.__slots__) - {"minutes", "tables_mb"})


class Observer:
    """Takes samples of the processes and of the database."""

    def __init__(self, pids: tuple[int, int], postmaster: int, url: str) -> None:
        self.url = url
        self._server, self._worker = map(psutil.Process, pids)
        self._postmaster = psutil.Process(postmaster)
        self._connection = psycopg.connect(url, autocommit=True)
        self._began = self._at = time.monotonic()
        self._done, _, newest = self._fetch(STAND)[0]
        self._seen = [newest, newest]

    def sample(self) -> Sample:
        """Look once."""
        now = time.monotonic()
        done, backlog, newest = self._fetch(STAND)[0]
        rate = (done - self._done) / (now - self._at)
        self._done, self._at = done, now
        latencies = sorted(row[0] for row in self._fetch(LATENCIES, self._seen)) or [0.0]
        self._seen = [self._seen[1], newest]
        queue_dead, dead, queue_bytes, table_bytes = map(
            float, self._fetch(TABLES, {"queues": list(QUEUE_TABLES)})[0]
        )
        return Sample(
            minutes=(now - self._began) / 60,
            tasks_per_s=rate,
            backlog=backlog,
            latency_p50_ms=latencies[len(latencies) // 2],
            latency_p99_ms=latencies[int(len(latencies) * 0.99)],
            server_mb=_add_up(self._server, lambda each: each.memory_info().rss) / MB,
            worker_mb=_add_up(self._worker, lambda each: each.memory_info().rss) / MB,
            postgres_mb=_add_up(self._postmaster, _own_bytes) / MB,
            server_files=_add_up(self._server, psutil.Process.num_fds),
            worker_files=_add_up(self._worker, psutil.Process.num_fds),
            queue_dead_rows=queue_dead,
            dead_rows=dead,
            queue_tables_mb=queue_bytes / MB,
            tables_mb=table_bytes / MB,
        )

    def close(self) -> None:
        """Look no more."""
        self._connection.close()

    def _fetch(self, query: str, given: Any = None) -> list[Any]:
        return self._connection.execute(query.encode(), given).fetchall()


def _own_bytes(process: psutil.Process) -> float:
    """Leave out what is shared: every process of Postgres has the buffers of all in its size."""
    memory = process.memory_info()
    return float(memory.rss - memory.shared)


def _add_up(root: psutil.Process, measure: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # a vacuum that has just come to its end
            total += measure(process)
    return total


def find_maximum(contender: Contender, seconds: float) -> float:
    """Drain one batch after the other; returns the median of tasks per second."""
    contender.drain(FILL_TASKS)
    rates: list[float] = []
    ends_at = time.monotonic() + seconds
    while not rates or time.monotonic() < ends_at:
        rates.append(contender.drain(FILL_TASKS).per_s)
    return statistics.median(rates)


def load(
    contender: Contender, observer: Observer, *, per_s: float, seconds: float
) -> Iterator[Sample]:
    """Submit jobs at an even pace, and give a sample now and then."""
    inputs = [None] * JOB_TASKS
    slots = SUBMITTERS * 4
    with ThreadPoolExecutor(SUBMITTERS) as pool:
        under_way = [pool.submit(contender.client.map, nothing, inputs)]
        began = due = time.monotonic()
        look_at = began + SAMPLE_SECONDS
        is_first = True  # it knows no jobs that came in before it
        # By the clock: whoever falls behind submits less, and does not go on for longer.
        while time.monotonic() < began + seconds + SAMPLE_SECONDS:
            time.sleep(max(due - time.monotonic(), 0))
            due += JOB_TASKS / per_s
            under_way.append(pool.submit(contender.client.map, nothing, inputs))
            if len(under_way) > slots:
                under_way.pop(0).result()
            if time.monotonic() >= look_at:
                look_at += SAMPLE_SECONDS
                sample = observer.sample()
                if not is_first:
                    yield sample
                is_first = False
        for submitted in under_way:
            submitted.result()


@contextmanager
def running(concurrency: int) -> Iterator[tuple[Contender, Observer]]:
    """Run Postgres, a server that asks for tokens and speaks TLS, and a worker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        postgres = EmbeddedPostgres(folder / "postgres")
        postgres.start()
        try:
            postgres.create_database("soak")
            url = postgres.url("soak")
            with variables(ask_and_encrypt(url, folder)):
                contender = Contender(postgres.pid, url, concurrency, folder)
            try:
                observer = Observer(contender.pids, postgres.pid, url)
                yield contender, observer
                observer.close()
            finally:
                contender.stop()
        finally:
            postgres.stop()


def mean(samples: Sequence[Sample]) -> Sample:
    """Take the mean of each figure."""
    rows = [asdict(sample) for sample in samples]
    return Sample(**{name: statistics.fmean(row[name] for row in rows) for name in rows[0]})


def by_minute(samples: Sequence[Sample]) -> list[Sample]:
    """Take the mean of each minute, which is called by its end."""
    each = round(60 / SAMPLE_SECONDS)
    return [mean(samples[at : at + each]) for at in range(0, len(samples), each)]


def compare_quarters(samples: Sequence[Sample]) -> dict[str, float]:
    """Divide the means of the last quarter by those of the first."""
    length = max(len(samples) // 4, 1)
    first, last = asdict(mean(samples[:length])), asdict(mean(samples[-length:]))
    return {name: last[name] / first[name] if first[name] else 1.0 for name in sorted(FLAT)}


def write_head(out: TextIO) -> None:
    """Write the names of the columns of the curve."""
    print(" ".join(f"{name:>15}" for name in Sample.__slots__), file=out)


def write_line(sample: Sample, out: TextIO) -> None:
    """Write one line of the curve."""
    print(" ".join(f"{value:15,.1f}" for value in asdict(sample).values()), file=out, flush=True)


def measure(options: argparse.Namespace, out: TextIO) -> dict[str, Any]:
    """Find the maximum, run at half of it, and compare."""
    with running(options.concurrency) as (contender, observer):
        maximum = find_maximum(contender, options.maximum_seconds)
        per_s = maximum * SHARE
        settle(observer.url)
        print(f"maximum {maximum:,.0f} tasks/s, going on at {per_s:,.0f}", file=out, flush=True)
        contender.pause(False)
        samples: list[Sample] = []
        each = round(60 / SAMPLE_SECONDS)
        write_head(out)
        for sample in load(contender, observer, per_s=per_s, seconds=options.minutes * 60):
            samples.append(sample)
            if len(samples) % each == 0:
                write_line(mean(samples[-each:]), out)
    return {
        "maximum_per_s": maximum,
        "wanted_per_s": per_s,
        "kept_per_s": statistics.fmean(sample.tasks_per_s for sample in samples),
        "last_to_first_quarter": compare_quarters(samples),
        "curve": [asdict(minute) for minute in by_minute(samples)],
    }


def rounded(found: Any) -> Any:
    """Round every number."""
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    return [rounded(value) for value in found] if isinstance(found, list) else round(found, 3)


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--maximum-seconds", type=float, default=30)
    parser.add_argument("--concurrency", type=int, default=500)
    options = parser.parse_args()
    # With --json the curve goes beside it, so that whoever waits sees how it goes.
    found = rounded(measure(options, sys.stderr if options.json else sys.stdout))
    if options.json:
        print(json.dumps(found))
        return
    print("last quarter to first:")
    for name, ratio in found["last_to_first_quarter"].items():
        print(f"{name:20} {ratio:8.3f}")


if __name__ == "__main__":
    main()
