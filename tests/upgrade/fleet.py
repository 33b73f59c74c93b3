"""Servers and workers of two versions as real processes on one database, replaced one by one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.e2e.system import eventually
from tests.test_guides import free_port
from tests.upgrade.previous import ROOT
from tests.upgrade.tasks import QUEUE

PROGRAM = "holdfast.cli.app"
MODULE = "tests.upgrade.tasks"
STOP_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 120


class Fleet:
    """What runs, by name; each process with the version of Holdfast that it was started with."""

    def __init__(self, database_url: str, folder: Path, heartbeat_seconds: float) -> None:
        self._database_url = database_url
        self._folder = folder
        self._heartbeat_seconds = heartbeat_seconds
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}

    def migrate(self, version: Path) -> str:
        """Run the `holdfast db migrate` of a version; returns what it says."""
        return self._run(version, PROGRAM, "db", "migrate", "--database-url", self._database_url)

    def serve(self, version: Path, name: str = "server") -> str:
        """Start a server, or replace the one of this name; returns its URL, always the same."""
        self.end(name)
        port = self._ports.setdefault(name, free_port())
        where = ("--database-url", self._database_url, "--port", str(port))
        self._start(name, version, "server", *where)
        eventually(lambda: _is_ready(self.url(name)))
        return self.url(name)

    def hire(
        self, version: Path, name: str, *, server: str = "server", kind: str, queue: str = QUEUE
    ) -> None:
        """Start a worker, or replace the one of this name once it has finished what it runs."""
        self.end(name)
        options = ["--queue", queue, "--concurrency", "20"]
        if kind == "placed":
            options = ["--placed", "--cpu", "2", "--memory", "2GB", "--disk", "1GB", "--gpu", "0"]
        where = ("--server", self.url(server), "--name", name, "--import", MODULE)
        self._start(name, version, "worker", *where, *options)

    def url(self, name: str) -> str:
        """Say where a server is."""
        return f"http://127.0.0.1:{self._ports[name]}"

    def end(self, name: str) -> None:
        """End a process the gentle way, and see that it took it so."""
        process = self._processes.pop(name, None)
        if process is not None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_SECONDS_MAX) == 0, name

    def kill(self, name: str) -> None:
        """Kill the first process of a worker, as its unit does, and see it gone."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(STOP_SECONDS_MAX)

    def use(self, version: Path, kind: str, server: str = "server") -> dict[str, Any]:
        """Have a client of a version use a server; returns what it says."""
        ended = self._run(
            version, "tests.upgrade.client", self.url(server), kind, str(self._folder)
        )
        answer: dict[str, Any] = json.loads(ended)
        return answer

    def are_all_running(self) -> bool:
        """Tell whether nobody has ended by himself."""
        return all(process.poll() is None for process in self._processes.values())

    def close(self) -> None:
        """End everything, workers before servers, whatever has become of it."""
        for process in reversed(self._processes.values()):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, version: Path, *arguments: str) -> None:
        environment = self._environment(version)
        environment["HOLDFAST_WORKER_DIR"] = str(self._folder / "workers" / name)
        command = [sys.executable, "-m", PROGRAM, *arguments]
        process = subprocess.Popen(command, cwd=self._folder, env=environment)
        self._processes[name] = process

    def _run(self, version: Path, module: str, *arguments: str) -> str:
        """Run a program to its end; returns what it says."""
        ended = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self._folder,
            env=self._environment(version),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def _environment(self, version: Path) -> dict[str, str]:
        return {
            **os.environ,
            # The version's package first; the tasks come from this checkout in either case.
            "PYTHONPATH": os.pathsep.join([str(version), str(ROOT)]),
            "HOLDFAST_DATA_DIR": str(self._folder / "data"),
            "HOLDFAST_LEASE_MIN": "1",
            "HOLDFAST_HEARTBEAT_SECONDS": str(self._heartbeat_seconds),
        }


@contextmanager
def running_fleet(
    database_url: str, folder: Path, heartbeat_seconds: float = 0.5
) -> Iterator[Fleet]:
    """Run servers and workers for the time of a block; nothing of them is left."""
    fleet = Fleet(database_url, folder, heartbeat_seconds)
    try:
        yield fleet
    finally:
        fleet.close()


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=10):
            return True
    except HTTPError as error:
        error.close()
        return False
    except OSError:
        return False
