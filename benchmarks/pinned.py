"""The rate of a drain, second by second, while an idle transaction keeps vacuum from cleaning up.

A server and a worker drain no-op tasks on an embedded Postgres with fsync on. First for some
seconds as usual; then a session reads once, in a transaction that it leaves open, and the drain
goes on for minutes. A producer keeps the queue filled at an even depth. A line per second goes to
standard error, the sums to standard output.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple

import psycopg

import holdfast as hf
from benchmarks.peers.rounds import TASK_INPUT
from benchmarks.queue import Contender
from benchmarks.queue_tasks import nothing
from holdfast.embedded import EmbeddedPostgres

LOSS_MAX = 0.25
JOB_TASKS = 2000
# What stands in line is kept between these two: never empty, never the longer the slower it goes.
DEPTH_MIN = 20_000
REFILL_SECONDS = 0.1
MINUTE = 60
# By key: a read of all jobs would look at every dead version of theirs, ten times a second.
OPEN = """
select job_id, succeeded, finished_at is not null from holdfast.jobs where job_id = any(%s)
"""
DEAD = """
select sum(n_dead_tup)::bigint,
       string_agg(relname || ' ' || n_dead_tup, ', ' order by n_dead_tup desc)
           filter (where n_dead_tup > 1000)
  from pg_stat_user_tables where schemaname = 'holdfast'
"""


class Second(NamedTuple):
    """What a second came to."""

    per_s: float
    dead_rows: int
    dead_by_table: str


class Progress:
    """How many tasks are done, by the jobs that have not ended yet and those that have."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: set[int] = set()
        self._ended = 0

    def add(self, job_id: int) -> None:
        """Follow one more job."""
        with self._lock:
            self._open.add(job_id)

    def count(self, connection: psycopg.Connection) -> tuple[int, int]:
        """Read how many tasks have succeeded, and how many have been submitted."""
        with self._lock:
            going = 0
            submitted = self._ended + len(self._open) * JOB_TASKS
            for job_id, succeeded, has_ended in connection.execute(OPEN, [list(self._open)]):
                if has_ended:
                    self._open.remove(job_id)
                    self._ended += succeeded
                else:
                    going += succeeded
            return self._ended + going, submitted


class Producer(Thread):
    """Keeps the queue filled with jobs of one size, through the HTTP API."""

    def __init__(self, client: hf.Client, url: str, progress: Progress) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._url = url
        self._progress = progress
        self._inputs = [json.loads(TASK_INPUT)] * JOB_TASKS
        self.is_over = Event()

    def run(self) -> None:
        """Add a job whenever too little is left."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self.is_over.is_set():
                done, submitted = self._progress.count(connection)
                if submitted - done < DEPTH_MIN:
                    self._progress.add(int(self._client.map(nothing, self._inputs).id))
                else:
                    self.is_over.wait(REFILL_SECONDS)


def watch(url: str, progress: Progress, seconds: int, label: str) -> list[Second]:
    """Take the rate of each second, and print it."""
    found = []
    with psycopg.connect(url, autocommit=True) as connection:
        before, _ = progress.count(connection)
        at = time.perf_counter()
        for number in range(seconds):
            time.sleep(max(at + 1 - time.perf_counter(), 0))
            now = time.perf_counter()
            done, _ = progress.count(connection)
            row = connection.execute(DEAD).fetchone()
            assert row is not None
            second = Second((done - before) / (now - at), int(row[0] or 0), row[1] or "")
            found.append(second)
            print(
                f"{label} {number + 1:4} s {second.per_s:8,.0f}/s"
                f" {second.dead_rows:10,} dead: {second.dead_by_table}",
                file=sys.stderr,
            )
            before, at = done, now
    return found


@contextmanager
def filled(contender: Contender, url: str) -> Iterator[Progress]:
    """Drain all the while a producer refills."""
    progress = Progress()
    producer = Producer(contender.client, url, progress)
    producer.start()
    contender.pause(False)
    try:
        yield progress
    finally:
        producer.is_over.set()
        producer.join(60)
        contender.pause(True)


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Drain as usual, then with the horizon pinned; compare the first minute with the last."""
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedPostgres(Path(name) / "postgres") as postgres,
    ):
        postgres.create_database("bench")
        url = postgres.url("bench")
        contender = Contender(postgres.pid, url, options.concurrency, Path(name))
        try:
            contender.drain(DEPTH_MIN)
            with filled(contender, url) as progress:
                free = watch(url, progress, options.free_seconds, "free")
                with psycopg.connect(url, autocommit=True) as pinning:
                    # The oldest snapshot keeps every row version that has died since.
                    pinning.execute("begin isolation level repeatable read")
                    pinning.execute("select 1 from holdfast.jobs limit 1")
                    pinned = watch(url, progress, round(options.minutes * MINUTE), "pinned")
                    pinning.execute("commit")
            findings = contender.audit()
        finally:
            contender.stop()
    # A run that is shorter than two minutes compares its first and its last third.
    length = min(MINUTE, max(len(pinned) // 3, 1))
    first, last = (
        statistics.fmean(second.per_s for second in seconds)
        for seconds in (pinned[:length], pinned[-length:])
    )
    return {
        "free_per_s": round(statistics.fmean(second.per_s for second in free)),
        "first_per_s": round(first),
        "last_per_s": round(last),
        "last_to_first_ratio": round(last / first, 3),
        "must_holds": last / first >= 1 - LOSS_MAX,
        "audit_findings": findings,
        "dead_rows": pinned[-1].dead_rows,
        "dead_rows_by_table": pinned[-1].dead_by_table,
        "per_s_each_second": [round(second.per_s) for second in pinned],
        "dead_rows_each_second": [second.dead_rows for second in pinned],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--free-seconds", type=int, default=10, help="before, with nothing open")
    parser.add_argument("--concurrency", type=int, default=500)
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        if not isinstance(value, list):
            print(f"{key:24} {value}")


if __name__ == "__main__":
    main()
