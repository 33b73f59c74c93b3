"""A real server on a database of its own, real workers, and workers played by the test itself."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import psycopg

import holdfast as hf
from tests.stand_in import secret_of

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).with_name("holdfast"))
END_SECONDS = 30
Found = TypeVar("Found")


class Stage:
    """One server, which can be stopped and started again, and whoever works for it."""

    def __init__(self, database_url: str, folder: Path, *flags: str, token: str = "") -> None:
        self.database_url = database_url
        self._flags = flags
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._folder = folder
        self._port = _free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.start_server()

    def start_server(self) -> None:
        """Start the server on the port it has always had, and wait until it answers."""
        self.server = self._start(
            *("server", "--database-url", self.database_url, "--port", str(self._port)),
            *self._flags,
        )
        eventually(self._answers)

    def start_worker(self, *queues: str) -> subprocess.Popen[bytes]:
        """Start a real worker that claims the tasks of tests.browser.tasks."""
        flags = [flag for queue in queues for flag in ("--queue", queue)]
        return self._start(
            "worker", "--server", self.url, "--import", "tests.browser.tasks", *flags
        )

    def start_placed_worker(self, name: str) -> subprocess.Popen[bytes]:
        """Start a real worker with room for one placed command; it leaves at once when asked to."""
        room = ("--cpu", "1", "--memory", "1GB", "--disk", "1GB", "--gpu", "0")
        flags = ("--placed", "--allow-commands", "--drain-seconds", "0", "--name", name)
        return self._start("worker", "--server", self.url, *flags, *room, folder=name)

    def stop_server(self, *, kill: bool = False) -> None:
        """End the server, and see that it is gone."""
        self.server.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.server.wait(END_SECONDS)

    def client(self) -> hf.Client:
        """Make a client that is patient with restarts."""
        return hf.Client(self.url, patience=60)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the ledger itself."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def run_sql(self, query: str, *values: object) -> None:
        """Write to the ledger behind everybody's back."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(query.encode(), values)

    def submit(self, **spec: Any) -> str:
        """Submit a job by its spec; returns its id."""
        fields = {
            "entrypoint": {"function": "tests.browser.tasks:work"},
            "queue": "by-hand",
            **spec,
        }
        return str(self.call("POST", "/api/jobs", fields)["job_id"])

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the API as a program does."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json", **self._headers, **headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from error

    def close(self) -> None:
        """End everything, the gentle way for what still lives."""
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, *arguments: str, folder: str = "workers") -> subprocess.Popen[bytes]:
        variables = {
            **os.environ,
            "HOLDFAST_WORKER_DIR": str(self._folder / folder),
            "HOLDFAST_OBJECT_STORE": str(self._folder / "objects"),
            "HOLDFAST_LEASE_MIN": "0.5",
        }
        with (self._folder / "processes.log").open("ab") as log:
            process = subprocess.Popen(
                [PROGRAM, *arguments], cwd=ROOT, env=variables, stdout=log, stderr=log
            )
        self._processes.append(process)
        return process

    def _answers(self) -> bool:
        assert self.server.poll() is None, (self._folder / "processes.log").read_text()[-2000:]
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self._port), 1).close()
            return bool(self.call("GET", "/readyz"))
        return False


class HandWorker:
    """A worker whose every word the test says, by the same routes as any other."""

    def __init__(self, stage: Stage, worker_id: str) -> None:
        self._stage = stage
        self.worker_id = worker_id
        secret = secret_of(worker_id)
        self._shown = {"holdfast-worker": f"{worker_id} {secret}"}
        body = {"name": worker_id, "host": f"{worker_id}.test", "queues": ["by-hand"]}
        self._say("worker-register", {**body, "secret": secret})

    def claim(self, task_id: str, *, start: bool = True) -> dict[str, Any]:
        """Take a task, and unless told otherwise say that it runs."""
        body = {"task_id": task_id, "idempotency_key": uuid4().hex}
        [claim] = self._say("task-claim", body)["claims"]
        if start:
            self.beat(claim, state="running")
        held: dict[str, Any] = claim
        return held

    def claim_next(self, queue: str) -> dict[str, Any] | None:
        """Take the next task of a queue, if there is one for it, and run it."""
        body = {"queues": [queue], "idempotency_key": uuid4().hex, "start": True}
        claims: list[dict[str, Any]] = self._say("task-claim", body)["claims"]
        return claims[0] if claims else None

    def beat(self, claim: dict[str, Any], **fields: Any) -> Any:
        """Renew a lease, or report a state or progress."""
        return self._say("heartbeat", {**_fence(claim), **fields})

    def end(self, claim: dict[str, Any], status: str = "succeeded", **fields: Any) -> None:
        """Say how an attempt ended."""
        self._say("task-complete", {**_fence(claim), "status": status, **fields})

    def log(self, claim: dict[str, Any], content: bytes, offset: int = 0) -> None:
        """Send output of an attempt."""
        text = base64.b64encode(content).decode()
        body = {**_fence(claim), "offset": offset, "content": text}
        self._stage.call("POST", "/internal/task-log", body)

    def _say(self, route: str, body: dict[str, Any]) -> Any:
        """Call a route in its own name."""
        named = {"worker_id": self.worker_id, **body}
        return self._stage.call("POST", f"/internal/{route}", named, **self._shown)


def eventually(fact: Callable[[], Found], seconds: float = 30) -> Found:
    """Look until there is something to see, and return it; fail when that takes too long."""
    ends_at = time.monotonic() + seconds
    while True:
        found = fact()
        if found:
            return found
        assert time.monotonic() < ends_at, f"{fact} has not come true; the last look: {found!r}"
        time.sleep(0.05)


def _fence(claim: dict[str, Any]) -> dict[str, Any]:
    return {name: claim[name] for name in ("task_id", "attempt", "lease_token")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
