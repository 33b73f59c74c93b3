"""Rounds of the peers: fill a queue, drain it with one worker process, and see what it cost.

Every contender runs on one Postgres, in a database of its own, and is measured by what is here:
CPU with `cpu_seconds`, WAL with `wal_bytes`, from the state in which `settle` leaves its tables.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, LiteralString

import psutil
import psycopg

from benchmarks.peers.environment import ROOT, get_python
from benchmarks.peers.script import Tally

# What each task is given, by every contender.
TASK_INPUT = '{"n":12345}'
COMMAND_SECONDS_MAX = 600
CPU_READS_MAX = 10

# How many tasks the tables of a peer show as done.
ACKNOWLEDGED: dict[str, LiteralString] = {
    "pgqueuer": "select count(*) from pgqueuer_log where status = 'successful'",
    "procrastinate": "select count(*) from procrastinate_jobs where status = 'succeeded'",
    "awa": "select count(*) from awa.jobs where state = 'completed'",
    "oban": "select count(*) from oban_jobs where state = 'completed'",
}
# Variables that would change how a peer, its driver or its Python behaves.
FOREIGN_VARIABLES = ("PG", "PROCRASTINATE_", "AWA_", "OBAN_", "PYTHON")


@dataclass(frozen=True)
class Drained:
    """What draining a queue came to; the CPU is that of the workers and of Postgres together."""

    per_s: float
    cpu_us_per_task: float
    wal_bytes_per_task: float
    # Of Holdfast: the CPU by server, worker and Postgres.
    parts: Mapping[str, float] = field(default_factory=dict)


class Peer:
    """A library to compare with, by its name in this folder."""

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

    def drain(self, count: int, workers: int = 1) -> Drained:
        """Drain what was filled in, and check that the peer's tables say so."""
        settle(self._url)
        before = _ask(self._url, ACKNOWLEDGED[self.name])
        with ExitStack() as stack:
            tally = Path(stack.enter_context(TemporaryDirectory())) / "tally"
            Tally.create(tally)
            commands = [
                stack.enter_context(self._command("work", str(count), str(tally), str(slot)))
                for slot in range(workers)
            ]
            for command in commands:
                assert _read(command)["ready"]
            wal, cpu = wal_bytes(self._url), cpu_seconds(self._postmaster)
            for command in commands:
                _release(command)
            found = [_read(command) for command in commands]
            cpu = cpu_seconds(self._postmaster) - cpu + sum(one["cpu_seconds"] for one in found)
            wal = wal_bytes(self._url) - wal
        done = _ask(self._url, ACKNOWLEDGED[self.name]) - before
        if done != count:
            raise RuntimeError(f"{self.name} shows {done} tasks as done, not {count}")
        began = min(one["began"] for one in found if one["began"] is not None)
        seconds = max(one["ended"] for one in found if one["ended"] is not None) - began
        return Drained(count / seconds, cpu * 1e6 / count, wal / count)

    def latencies_ms(self, count: int, per_second: float) -> list[float]:
        """Enqueue one task at a time, at an even pace; from before the call to its function."""
        with self._command("listen", str(count)) as listener:
            assert _read(listener)["ready"]
            _release(listener)
            with self._command("send", str(count), str(per_second)) as sender:
                _read(sender)
            return list(_read(listener)["latencies_ms"])

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
