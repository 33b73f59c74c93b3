"""Servers and workers of placed work as real processes, and what the ledger says of them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import psycopg
from psycopg.rows import namedtuple_row

from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.e2e import member
from tests.e2e.system import PROGRAM, ROOT, eventually
from tests.test_guides import free_port

STOP_SECONDS_MAX = 30
PLACED_WORKER = Path(__file__).with_name("placed_worker.py")


class Begun(NamedTuple):
    """One start of the user's command, as the command itself has noted it."""

    task_id: str
    attempt: int
    pid: int


class Cluster:
    """Any number of servers on one database, and workers that each have a folder of their own."""

    def __init__(self, database_url: str, folder: Path, *, tick: float) -> None:
        self.folder = folder
        self._database_url = database_url
        self._ledger = psycopg.connect(database_url, autocommit=True, row_factory=namedtuple_row)
        self._servers: list[subprocess.Popen[bytes]] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._url = ""
        self._variables = {
            **os.environ,
            "HOLDFAST_LEASE_MIN": "1",
            "HOLDFAST_HEARTBEAT_SECONDS": str(tick),
            "HOLDFAST_DATA_DIR": str(folder / "server"),
            "PYTHONPATH": str(ROOT),
        }

    def start_server(self, port: int | None = None) -> tuple[subprocess.Popen[bytes], int]:
        """Start a server, and have everybody talk to it from now on; returns it and its port."""
        port = port or free_port()
        where = ("--database-url", self._database_url, "--port", str(port))
        server = self._start([PROGRAM, "server", *where])
        self._servers.append(server)
        self._url = f"http://127.0.0.1:{port}"
        eventually(self._is_ready)
        return server, port

    def hire(
        self, name: str, *options: str, cpu: int = 1, program: Sequence[str] = (PROGRAM,)
    ) -> subprocess.Popen[bytes]:
        """Start a worker with room for one task; one of the same name takes up where it left."""
        room = ("--cpu", str(cpu), "--memory", "1GB", "--disk", "1GB", "--gpu", "0")
        where = ("--server", self._url, "--name", name, "--drain-seconds", "0")
        command = [*program, "worker", "--placed", "--allow-commands", *where, *room, *options]
        worker = self._start(command, HOLDFAST_WORKER_DIR=str(self._home(name)))
        self._workers.append(worker)
        return worker

    def hire_at(self, name: str, port: int, address: str) -> subprocess.Popen[bytes]:
        """Start a worker that listens on a port, but is called at an address."""
        options = {"server": self._url, "folder": str(self._home(name)), "name": name}
        places = {"port": port, "address": address}
        worker = self._start([sys.executable, str(PLACED_WORKER), json.dumps(options | places)])
        self._workers.append(worker)
        return worker

    def submit_gang(self, members: int, *, lease: float) -> int:
        """Submit a gang whose members live until they are told to finish."""
        program = str(Path(member.__file__))
        job: dict[str, Any] = {
            "entrypoint": {"command": [sys.executable, "-I", "-S", program, str(self.folder)]},
            "replicas": members,
            "lease": lease,
        }
        if members > 1:
            job["coscheduling"] = {}
        return self.submit(job)

    def submit(self, job: dict[str, Any]) -> int:
        """Submit a job as it is; returns its id."""
        return int(self._call("POST", "/api/jobs", job)["job_id"])

    def plant(self, **variables: str) -> None:
        """Have everything that is started from now on find variables in its environment."""
        self._variables |= variables

    def finish(self, job_id: int) -> None:
        """Let all members finish, and see the job to its good end and the ledger in order."""
        (self.folder / member.FINISH).touch()
        query = "select state from holdfast.jobs where job_id = %s and finished_at is not null"
        [ended] = eventually(lambda: self.fetch(query, job_id))
        assert ended.state == 4, ended
        eventually(lambda: not self.fetch("select 1 from holdfast.leases"))
        asyncio.run(_audit(self._database_url))

    def begun(self) -> list[Begun]:
        """List every start of a command so far, in order."""
        with suppress(FileNotFoundError):
            lines = (self.folder / member.BEGUN).read_text().splitlines()
            return [_read_begun(line) for line in lines]
        return []

    def await_begun(self, *names: tuple[int, int, int]) -> list[Begun]:
        """Wait until these attempts, named by job, task and number, have begun; lists all."""
        wanted = {(f"{job}.{index}", attempt) for job, index, attempt in names}
        eventually(lambda: wanted <= {(b.task_id, b.attempt) for b in self.begun()})
        return self.begun()

    def last_beat(self, begun: Begun) -> datetime:
        """Say when a command has last shown that it lived."""
        path = self.folder / f"beat-{begun.task_id}.{begun.attempt}"
        return datetime.fromtimestamp(float(path.read_bytes()), tz=None).astimezone()

    def fetch(self, query: str, *values: Any) -> list[Any]:
        """Read the tables as they are."""
        return self._ledger.execute(query, values).fetchall()

    def end_terms(self) -> None:
        """Let the term of a leader that is dead run out at once."""
        self._ledger.execute("update holdfast.leadership set expires_at = holdfast.now()")

    def worker_of(self, job_id: int, index: int) -> str:
        """Say which incarnation holds the lease of a task."""
        query = "select worker_id from holdfast.leases where job_id = %s and task_index = %s"
        [row] = self.fetch(query, job_id, index)
        return str(row.worker_id)

    def attempts(self, job_id: int) -> list[Any]:
        """List the attempts of a job that have ended."""
        query = "select * from holdfast.attempts where job_id = %s order by attempt, task_index"
        return self.fetch(query, job_id)

    def placements(self, job_id: int, attempt: int) -> list[Any]:
        """List when attempts with this number were placed, and by which transaction."""
        query = """
            select task_index, ts, txid, cause from holdfast.events
             where job_id = %s and attempt = %s and type = 'placed' order by task_index
        """
        return self.fetch(query, job_id, attempt)

    def folders(self, name: str) -> list[Path]:
        """List the folders of attempts that a worker has on its disk."""
        return [path.parent for path in self._home(name).rglob("order.json")]

    def close(self) -> None:
        """End everything, workers first, and see that nothing runs that they had begun."""
        end_all(self._workers)
        end_all(self._servers)
        self._ledger.close()
        for begun in self.begun():
            _see_gone(begun.pid)

    def _home(self, name: str) -> Path:
        return self.folder / "hosts" / name

    def _is_ready(self) -> bool:
        try:
            self._call("GET", "/readyz")
        except HTTPError as error:
            error.close()
            return False
        except OSError:
            return False
        return True

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(self._url + path, method=method, data=content, headers=headers)
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def _start(self, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
        environment = self._variables | variables
        return subprocess.Popen(command, cwd=self.folder, env=environment)


@contextmanager
def running(database_url: str, folder: Path, *, tick: float) -> Iterator[Cluster]:
    """Run a cluster for the time of a block; nothing of it is left."""
    cluster = Cluster(database_url, folder, tick=tick)
    try:
        yield cluster
    finally:
        cluster.close()


def find_child(worker: subprocess.Popen[bytes]) -> psutil.Process:
    """Find the process that works, below the one that supervises it."""
    [child] = psutil.Process(worker.pid).children()
    return child


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    """End processes, the gentle way for what still lives."""
    for process in processes:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _see_gone(pid: int) -> None:
    """Wait for the end of what a killed worker has left to its shim."""
    eventually(lambda: is_gone(pid))


def _read_begun(line: str) -> Begun:
    name, pid = line.split()
    task_id, _, attempt = name.rpartition(".")
    return Begun(task_id, int(attempt), int(pid))


async def _audit(database_url: str) -> None:
    async with Database(database_url) as database:
        await assert_audit_is_silent(database)
