"""The whole of Holdfast as real processes, any of which can be killed and started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import holdfast as hf
from holdfast.embedded import EmbeddedPostgres

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).with_name("holdfast"))
Answer = TypeVar("Answer")


class System:
    """One Postgres, one server, any number of workers."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.postgres = EmbeddedPostgres(folder / "postgres")
        self.server_url = f"http://127.0.0.1:{port}"
        self._port = port
        self._processes: list[subprocess.Popen[bytes]] = []
        self._variables = {
            **os.environ,
            "HOLDFAST_WORKER_DIR": str(folder / "workers"),
            "HOLDFAST_LEASE_MIN": "0.5",
        }

    @property
    def database_url(self) -> str:
        """Where the ledger is."""
        return self.postgres.url("e2e")

    def start_postgres(self) -> None:
        """Start Postgres, for the first time or again."""
        self.postgres.start()
        self.postgres.create_database("e2e")

    def start_server(self) -> None:
        """Start the server on the port it has always had."""
        self.server = self._start(
            "server", "--database-url", self.database_url, "--port", str(self._port), "--migrate"
        )

    def start_worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker; it takes the first slot that is free on this host."""
        where = ("--server", self.server_url, "--queue", "e2e", "--import", "tests.e2e.tasks")
        return self._start("worker", *where, *options)

    def client(self) -> hf.Client:
        """Make a client that is patient with restarts."""
        return hf.Client(self.server_url, patience=60)

    def stop(self) -> None:
        """End everything, the gentle way for what still lives."""
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.postgres.stop()

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([PROGRAM, *arguments], cwd=ROOT, env=self._variables)
        self._processes.append(process)
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process without a word, and see that it is gone."""
    process.kill()
    process.wait()


@contextmanager
def running(folder: Path, port: int) -> Iterator[System]:
    """Run Postgres and a server for the time of a block."""
    system = System(folder, port)
    try:
        system.start_postgres()
        system.start_server()
        yield system
    finally:
        system.stop()


def eventually(find: Callable[[], Answer | None], seconds: float = 90) -> Answer:
    """Wait until something is found; what never comes is a failure."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        found = find()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{find} has found nothing in {seconds} s")
