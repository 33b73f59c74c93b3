"""Rounds of the peers: fill a queue, drain it with one worker process, and see what it cost.

Every contender runs on one Postgres, in a database of its own, and is measured by what is here:
CPU with `cpu_seconds`, WAL with `wal_bytes`, from the state in which `settle` leaves its tables.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import psutil
import psycopg

from benchmarks.peers.environment import ROOT, get_python

# What each task is given, by every contender.
TASK_INPUT = '{"n":12345}'
COMMAND_SECONDS_MAX = 600
CPU_READS_MAX = 10

# How many tasks the tables of a peer show as done.
ACKNOWLEDGED: dict[str, LiteralString] = {
    "pgqueuer": "select count(*) from pgqueuer_log where status = 'successful'",
    "procrastinate": "select count(*) from procrastinate_jobs where status = 'succeeded'",
}
# Variables that would change how a peer, its driver or its Python behaves.
FOREIGN_VARIABLES = ("PG", "PROCRASTINATE_", "PYTHON")


@dataclass(frozen=True)
class Drained:
    """What draining a queue came to; the CPU is that of the worker and of Postgres together."""

    per_s: float
    cpu_us_per_task: float
    wal_bytes_per_task: float


class Peer:
    """A library to compare with: pgqueuer or procrastinate."""

    def __init__(self, name: str, postmaster: int) -> None:
        self.name = name
        self._postmaster = postmaster
        self._python = get_python(name)
        self._url = ""

    def prepare(self, url: str) -> None:
        """Create its tables in a fresh database."""
        self._url = url
        with self._command("install") as command:
            _read(command)

    def fill(self, count: int) -> float:
        """Enqueue no-op tasks in bulk over one connection; returns tasks per second."""
        with self._command("fill", str(count), TASK_INPUT) as command:
            return count / float(_read(command)["seconds"])

    def drain(self, count: int) -> Drained:
        """Drain what was filled in with one worker, and check that the peer's tables say so."""
        settle(self._url)
        before = _ask(self._url, ACKNOWLEDGED[self.name])
        with self._command("work", str(count)) as command:
            word = _read(command)
            assert word["ready"]
            wal, cpu = wal_bytes(self._url), cpu_seconds(self._postmaster)
            _release(command)
            found = _read(command)
            cpu = cpu_seconds(self._postmaster) - cpu + found["cpu_seconds"]
            wal = wal_bytes(self._url) - wal
        done = _ask(self._url, ACKNOWLEDGED[self.name]) - before
        if done != count:
            raise RuntimeError(f"{self.name} shows {done} tasks as done, not {count}")
        return Drained(count / found["seconds"], cpu * 1e6 / count, wal / count)

    @contextmanager
    def _command(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run the peer's script; it is killed when it takes too long."""
        script = [str(self._python), "-m", f"benchmarks.peers.{self.name}_peer", self._url]
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(FOREIGN_VARIABLES)
        }
        with subprocess.Popen(
            [*script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=variables,
        ) as command:
            watchdog = threading.Timer(COMMAND_SECONDS_MAX, command.kill)
            watchdog.start()
            try:
                yield command
                code = command.wait()
            except BaseException:  # also a Ctrl-C: no worker stays behind
                command.kill()
                raise
            finally:
                watchdog.cancel()
        if code != 0:
            raise RuntimeError(f"{self.name} {arguments[0]} ended with {code}")


def settle(url: str) -> None:
    """Vacuum and analyze a database, so that every drain begins alike and is planned well."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def cpu_seconds(*pids: int) -> float:
    """Add up the CPU time of processes and of all below them, living and reaped."""
    for _ in range(CPU_READS_MAX):
        # A child that ends while we read has its time in its parent at the next try.
        with suppress(psutil.NoSuchProcess):
            return sum(_cpu_seconds_of_tree(psutil.Process(pid)) for pid in pids)
    raise RuntimeError(f"the CPU time of {pids} cannot be read")


def _cpu_seconds_of_tree(root: psutil.Process) -> float:
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def wal_bytes(url: str) -> int:
    """Read how much WAL the server has written so far."""
    return _ask(url, "select (pg_current_wal_insert_lsn() - '0/0')::bigint")


def _ask(url: str, query: LiteralString) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _read(command: subprocess.Popen[str]) -> Any:
    assert command.stdout is not None
    line = command.stdout.readline()
    if not line:
        raise RuntimeError(f"a peer ended without an answer: {command.args!r}")
    return json.loads(line)


def _release(command: subprocess.Popen[str]) -> None:
    assert command.stdin is not None
    command.stdin.write("\n")
    command.stdin.flush()
