"""Holdfast in the benchmark of placed work: real workers, and leaders with simulated ones."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, LiteralString

import aiohttp
import psutil
import psycopg

from benchmarks.heartbeat import processes, wait_for_answers
from benchmarks.peers.environment import ROOT
from benchmarks.peers.rounds import cpu_seconds
from holdfast.embedded import EmbeddedPostgres

PROGRAM = Path(sys.executable).with_name("holdfast")
SUBMITTERS = 16
BIG_GANG_SIZE = 8
WAIT_SECONDS_MAX = 120.0
TRUE = {"entrypoint": {"shell": "true"}}
BOUND_PER_S_MUST = 800.0

FINISHED: LiteralString = """
select count(*), extract(epoch from max(finished_at))::float8 from holdfast.jobs
 where job_id = any(%s) and state = 4"""
# An attempt is written down when it ends, with the instant at which its start was recorded.
STARTED: LiteralString = """
select count(*), extract(epoch from max(started_at))::float8 from holdfast.attempts
 where job_id = any(%s) and started_at is not null"""


class Cluster:
    """A server, as its clients see it, and what its ledger says."""

    def __init__(self, address: str, url: str, session: aiohttp.ClientSession) -> None:
        self.address = address
        self._url = url
        self._session = session

    async def submit(self, count: int, body: dict[str, Any]) -> tuple[list[int], float]:
        """Submit jobs from several callers at once; returns their ids, and when that began."""
        left = iter(range(count))
        ids: list[int] = []

        async def work() -> None:
            for _ in left:
                ids.append(await self.submit_one(body))

        began = time.time()
        await asyncio.gather(*(work() for _ in range(SUBMITTERS)))
        return ids, began

    async def submit_one(self, body: dict[str, Any]) -> int:
        """Submit a job."""
        async with self._session.post(f"{self.address}/api/jobs", json=body) as response:
            response.raise_for_status()
            return int((await response.json())["job_id"])

    async def await_count(self, query: LiteralString, count: int, ids: Sequence[int]) -> float:
        """Wait until so many are counted; returns the instant that the ledger has for the last."""
        ends_at = time.monotonic() + WAIT_SECONDS_MAX
        reached = 0
        connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        async with connection:
            while time.monotonic() < ends_at:
                given = [list(ids)] * query.count("%s")
                row = await (await connection.execute(query, given)).fetchone()
                assert row is not None
                reached = row[0]
                if reached >= count:
                    return float(row[1])
                await asyncio.sleep(0.1)
        raise SystemExit(f"only {reached} of {count} in time")


class RealCluster:
    """A server, a ledger with fsync on, and workers with their shims, until `stop`.

    Each worker is called at a loopback address of its own, and so is on a host of its own.
    """

    def __init__(self, folder: Path, *, nodes: int, cores: int, share: int) -> None:
        self._stack = ExitStack()
        self._share = share
        self._workers: list[int] = []
        with ExitStack() as undoing:
            undoing.callback(self.stop)
            self._postgres = self._stack.enter_context(EmbeddedPostgres(folder / "postgres"))
            self._postgres.create_database("bench")
            self._url = self._postgres.url("bench")
            address = self._start_server()
            for node in range(nodes):
                self._start_worker(node, folder / "workers", address=address, cores=cores)
            wait_for_answers(self._url, nodes)
            runner = self._stack.enter_context(asyncio.Runner())
            session = runner.run(_open_session())
            self._stack.callback(lambda: runner.run(session.close()))
            self._run = runner.run
            self._cluster = Cluster(address, self._url, session)
            undoing.pop_all()

    def stop(self) -> None:
        """End all of it, the workers first."""
        self._stack.close()

    def audit(self) -> None:
        """See that the ledger's own check of its invariants finds nothing."""
        audit(self._url)

    def run_jobs(self, count: int) -> float:
        """Run one-task jobs; seconds from the first submission to the last end in the ledger."""

        async def run() -> float:
            ids, began = await self._cluster.submit(count, TRUE)
            return await self._cluster.await_count(FINISHED, count, ids) - began

        return self._run(run())

    def run_gangs(self, count: int, size: int, text: str) -> None:
        """Run gangs, each member on a host of its own."""
        gang = {
            "entrypoint": {"shell": text},
            "replicas": size,
            "coscheduling": {"hosts": "spread"},
            "resources": {"cpu": 1 / self._share},
        }

        async def run() -> None:
            ids, _ = await self._cluster.submit(count, gang)
            await self._cluster.await_count(FINISHED, count, ids)

        self._run(run())

    def submit(self, text: str) -> None:
        """Submit one job."""
        self._run(self._cluster.submit_one({"entrypoint": {"shell": text}}))

    def cpu_seconds(self) -> dict[str, float]:
        """Read the CPU seconds of each component; shims and commands are below launchers."""
        launchers = [
            child
            for pid in self._workers
            for child in psutil.Process(pid).children(recursive=True)
            if any(word.endswith("/shim.py") for word in child.cmdline())
        ]
        # Shims look the same, and are below their launchers.
        shims = cpu_seconds(*(each.pid for each in launchers if each.parent() not in launchers))
        return {
            "shim_and_command": shims,
            "worker": cpu_seconds(*self._workers) - shims,
            "server": cpu_seconds(self._server),
            "postgres": cpu_seconds(self._postgres.pid),
        }

    def _start_server(self) -> str:
        command = [str(PROGRAM), "server", "--database-url", self._url, "--port", "0", "--migrate"]
        server = self._begin(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._server = server.pid
        assert server.stdout is not None
        return next(
            line.rpartition(" ")[2].strip() for line in server.stdout if "serving at" in line
        )

    def _start_worker(self, node: int, folder: Path, *, address: str, cores: int) -> None:
        host = f"127.0.0.{node + 2}"
        worker = self._begin(
            [
                *(str(PROGRAM), "worker", "--placed", "--server", address),
                *("--name", f"node{node}", "--listen", host, "--advertise", host),
                *("--cpu", str(cores), "--memory", "64GB", "--disk", "1GB"),
                *("--allow-commands", "--log-format", "json"),
            ],
            env={**psutil.Process().environ(), "HOLDFAST_WORKER_DIR": str(folder)},
            stderr=subprocess.DEVNULL,
        )
        self._workers.append(worker.pid)

    def _begin(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, **options)
        self._stack.callback(process.wait, 60)
        self._stack.callback(process.terminate)
        return process


async def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()


async def measure_simulated(workers: int, jobs: int, gangs: int) -> dict[str, Any]:
    """Measure how fast a leader places and binds on workers that run nothing."""
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedPostgres(Path(name) / "postgres") as postgres,
    ):
        postgres.create_database("bench")
        url = postgres.url("bench")
        with processes(url, workers) as (server, address):
            wait_for_answers(url, workers)
            async with aiohttp.ClientSession() as session:
                figures = await _measure_binding(
                    Cluster(address, url, session), server, jobs, gangs
                )
        audit(url)
    return {
        "workers": workers,
        **figures,
        "musts_hold": figures["jobs_bound_per_s"] >= BOUND_PER_S_MUST,
    }


async def _measure_binding(
    cluster: Cluster, server: psutil.Process, jobs: int, gangs: int
) -> dict[str, float]:
    before = cpu_seconds(server.pid)
    ids, began = await cluster.submit(jobs, TRUE)
    submitted = time.time() - began
    await cluster.await_count(FINISHED, jobs, ids)
    seconds = await cluster.await_count(STARTED, jobs, ids) - began
    cpu = (cpu_seconds(server.pid) - before) * 1000 / jobs
    gang = {**TRUE, "replicas": BIG_GANG_SIZE, "coscheduling": {}}
    ids, began = await cluster.submit(gangs, gang)
    await cluster.await_count(FINISHED, gangs, ids)
    members = gangs * BIG_GANG_SIZE
    gang_seconds = await cluster.await_count(STARTED, members, ids) - began
    return {
        "submit_s": round(submitted, 2),
        "server_cpu_ms_per_job": round(cpu, 2),
        "jobs_bound_per_s": round(jobs / seconds, 1),
        "gang_members_bound_per_s": round(members / gang_seconds, 1),
    }


def audit(url: str) -> None:
    """See that the ledger's own check of its invariants finds nothing."""
    subprocess.run([str(PROGRAM), "audit", "--database-url", url], check=True, stdout=sys.stderr)
