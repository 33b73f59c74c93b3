"""How long work stands still when something dies, beside what the settings of leases allow.

Two servers, two workers that claim and two that are called, a Postgres with a synchronous standby,
all as real processes, each scene in turn. docs/benchmarks.md says what is counted.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

import holdfast as hf
from chaos.faults.plan import SERVERS, WORKERS
from chaos.layouts import Layout
from chaos.processes import Host, send
from chaos.system import System, running
from chaos.workload import tasks
from tests.standby import kill_whole
from tests.supervision import supervise

LAYOUT = Layout(WORKERS[:2], WORKERS[2:4], (), has_standby=True)
LEASE = 10.0
ROUNDS = 3
SECONDS_MAX = 180.0
LOOK_SECONDS = 0.01
# What comes on top of a lease: the reaper looks each second, and a process has to be started.
REAPER_SECONDS, START_SECONDS = 1.0, 5.0
TERM_SECONDS = 10.0
# A standby that has lost its primary looks for it again after 5 s, and commits wait for it.
POSTGRES_SECONDS = 10.0
PATIENCE_SECONDS = 120
STARTED = "select at from marks where task = %s and kind = 'start' and attempt >= %s"
WATCHED = "select 1 from holdfast.reaper where coalesce(outage_until <= holdfast.now(), true)"
HOLDER = """
select workers.name, leases.attempt from holdfast.leases join holdfast.workers using (worker_id)
 where job_id = %s and task_index = 0
"""


class Scene(NamedTuple):
    """Something that dies, and within what time work has to go on, by the settings."""

    name: str
    allowed_seconds: float
    measure: Callable[["Bench"], float]


class Bench:
    """A system, and a client of it."""

    def __init__(self, system: System, client: hf.Client) -> None:
        self.system = system
        self.client = client

    def lose_worker(self, function: Any, lose: Callable[[Host], None]) -> float:
        """Kill the worker that runs a task; returns the seconds until the next attempt runs."""
        with_lease = function.with_options(lease=LEASE)
        job = with_lease.submit(1, seconds=SECONDS_MAX)
        name, attempt = self._await_holder(int(job.id))
        self._await(STARTED, f"{job.id}.0", attempt)
        host = self.system.hosts[name]
        time.sleep(1.0)  # a lease that was renewed, as most are
        began = time.monotonic()
        lose(host)
        started = self._await(STARTED, f"{job.id}.0", attempt + 1)
        job.cancel(mode="hard")
        self.recover()
        return float(started) - began

    def lose_other(self, function: Any, lose: Callable[[], None]) -> float:
        """Kill what tasks do not run on; returns the seconds until one runs that came after it."""
        began = time.monotonic()
        lose()
        job = function.submit(1, seconds=0.0)
        started = self._await(STARTED, f"{job.id}.0", 0)
        job.result(timeout=PATIENCE_SECONDS)
        self.recover()
        return float(started) - began

    def lose_primary(self) -> float:
        """Have the standby take over, and give it one of its own for the next time."""
        seconds = self.lose_other(tasks.slow, self.system.fail_over)
        self.system.add_standby()
        return seconds

    def recover(self) -> None:
        """Have all processes run again before the next scene."""
        for host in self.system.hosts.values():
            if not host.main():
                host.start()
        self.system.await_ready()
        self.system.await_workers()
        self._await_watch()

    def find_leader(self) -> Host:
        """Find the server that leads: its process stands in the leader's name."""
        ends_at = time.monotonic() + SECONDS_MAX
        while time.monotonic() < ends_at:
            with self.system.connect() as connection:
                row = connection.execute("select leader from holdfast.leadership").fetchone()
            leader = str(row[0]) if row else ""
            for name in SERVERS:
                pids = [process.pid for process in self.system.hosts[name].main()]
                if any(f":{pid}:" in leader for pid in pids):
                    return self.system.hosts[name]
            time.sleep(LOOK_SECONDS)
        raise TimeoutError("no server leads")

    def restart_postgres(self) -> None:
        """Kill Postgres and start it again."""
        kill_whole(self.system.postgres)
        self.system.postgres.start()

    def _await_watch(self) -> None:
        """Wait until leases are reaped: after an outage nobody is charged for it for some time."""
        ends_at = time.monotonic() + SECONDS_MAX
        with self.system.connect() as connection:
            while connection.execute(WATCHED).fetchone() is None:
                if time.monotonic() > ends_at:
                    raise TimeoutError("the reaper still waits for what an outage has held up")
                time.sleep(LOOK_SECONDS)

    def _await_holder(self, job_id: int) -> tuple[str, int]:
        ends_at = time.monotonic() + SECONDS_MAX
        while time.monotonic() < ends_at:
            with self.system.connect() as connection:
                row = connection.execute(HOLDER, (job_id,)).fetchone()
            if row is not None:
                return str(row[0]), int(row[1])
            time.sleep(LOOK_SECONDS)
        raise TimeoutError(f"nobody has taken job {job_id}")

    def _await(self, query: str, *values: Any) -> float:
        ends_at = time.monotonic() + SECONDS_MAX
        with psycopg.connect(self.system.record_url, autocommit=True) as connection:
            while time.monotonic() < ends_at:
                row = connection.execute(query, values).fetchone()
                if row is not None:
                    return float(row[0])
                time.sleep(LOOK_SECONDS)
        raise TimeoutError(f"{values} has not come to be in {SECONDS_MAX:g} s")


def _kill_child(host: Host) -> None:
    """Kill the process that works; its supervisor lives."""
    send(host.child(), signal.SIGKILL)


SCENES = (
    Scene(
        "claimed_worker_restarted",
        START_SECONDS,
        lambda bench: bench.lose_worker(tasks.slow, _kill_child),
    ),
    Scene(
        "claimed_host_dead",
        LEASE + REAPER_SECONDS,
        lambda bench: bench.lose_worker(tasks.slow, Host.die),
    ),
    Scene(
        "placed_host_dead",
        LEASE + REAPER_SECONDS + START_SECONDS,
        lambda bench: bench.lose_worker(tasks.placed, Host.die),
    ),
    Scene(
        "server_dead",
        START_SECONDS,
        lambda bench: bench.lose_other(tasks.slow, bench.system.hosts[SERVERS[1]].die),
    ),
    Scene(
        "leader_dead",
        TERM_SECONDS + START_SECONDS,
        lambda bench: bench.lose_other(tasks.placed, bench.find_leader().die),
    ),
    Scene(
        "postgres_restarted",
        POSTGRES_SECONDS,
        lambda bench: bench.lose_other(tasks.slow, bench.restart_postgres),
    ),
    Scene(
        "postgres_failed_over",
        POSTGRES_SECONDS,
        lambda bench: bench.lose_primary(),
    ),
)


def measure(rounds: int, scenes: Sequence[Scene], folder: Path) -> dict[str, dict[str, Any]]:
    """Measure each scene so many times."""
    found: dict[str, dict[str, Any]] = {}
    with (
        running(folder, LAYOUT) as system,
        hf.Client(system.server_url, patience=PATIENCE_SECONDS) as client,
    ):
        bench = Bench(system, client)
        bench.recover()
        for scene in scenes:
            seconds = []
            for _ in range(rounds):
                seconds.append(scene.measure(bench))
                print(f"{scene.name}: {seconds[-1]:.2f} s", file=sys.stderr)
            found[scene.name] = {
                "median_seconds": round(statistics.median(seconds), 2),
                "max_seconds": round(max(seconds), 2),
                "allowed_seconds": scene.allowed_seconds,
                "rounds": rounds,
            }
    return found


def main() -> None:
    """Read the arguments, measure and print."""
    parser = argparse.ArgumentParser(prog="./run bench recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    names = [scene.name for scene in SCENES]
    parser.add_argument("--scene", choices=names, action="append", help="repeat it; default: all")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: must be at least 1")
    supervise()
    with tempfile.TemporaryDirectory(prefix="recovery-") as folder:
        scenes = [scene for scene in SCENES if scene.name in (given.scene or names)]
        found = measure(given.rounds, scenes, Path(folder))
    if given.json:
        print(json.dumps({"lease_seconds": LEASE, "scenes": found}, indent=2))
        return
    print(f"{'scene':26} {'median':>8} {'most':>8} {'allowed':>8}   lease {LEASE:g} s")
    for name, row in found.items():
        print(
            f"{name:26} {row['median_seconds']:8.2f} {row['max_seconds']:8.2f} "
            f"{row['allowed_seconds']:8.1f}"
        )


if __name__ == "__main__":
    main()
