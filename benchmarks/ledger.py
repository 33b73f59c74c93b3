"""What the ledger costs: claim, start and complete through the batcher, beside a bare floor.

A cycle is a turn: what has ended is reported together with the next claim, which records the start.
`apart` is the same in three calls, as for work whose start has to be reported.

The floor is two single-row UPDATEs, each its own commit, on eight connections: what a queue without
history, leases or counts would do. Both run in one run on one embedded Postgres with fsync on, in
interleaved rounds; ratios of their medians are what counts, because machines are noisy.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import uvloop

from benchmarks.audited import count_findings
from holdfast.cli.garbage import SERVER_ALLOCATIONS, collect_garbage_rarely
from holdfast.embedded import EmbeddedPostgres
from holdfast.embedded.binaries import get_binaries
from holdfast.ledger.batcher import Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import JobSpec, Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.complete_and_claim import Turn, complete_and_claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.renew import renew
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from holdfast.store.migrate import migrate

CALLERS = 64
FLOOR_CONNECTIONS = 8
INPUT = '{"to":"somebody@example.com","template":"welcome","n":12345}'


class Bench:
    """One ledger with its batchers."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        slots = asyncio.Semaphore(2)
        self.claims: Batcher[ClaimRequest, Any] = Batcher(
            lambda items: claim(ledger, items), slots=slots
        )
        self.reports: Batcher[Report, Any] = Batcher(
            lambda items: report(ledger, items), slots=slots
        )
        self.completions: Batcher[Completion, Any] = Batcher(
            lambda items: complete(ledger, items), slots=slots
        )
        self.turns: Batcher[Turn, Any] = Batcher(
            lambda items: complete_and_claim(ledger, items), slots=slots
        )
        self.seen: Counter[tuple[int, int, int]] = Counter()

    async def submit(self, queue: str, tasks: int) -> float:
        """Submit one job of many inputs until all of it is claimable; returns the seconds taken."""
        spec: JobSpec = parse_spec({"entrypoint": {"function": "app:send"}, "queue": queue})
        submission = Submission(spec, (INPUT,) * tasks)
        started = time.perf_counter()
        await submit_one(self.ledger, submission)
        await follow_up_all(self.ledger)
        return time.perf_counter() - started

    async def drain(self, queue: str, per_claim: int, *, apart: bool = False) -> tuple[int, float]:
        """Take a queue through claim, start and complete; returns tasks and seconds."""
        work = self._work_apart if apart else self.work
        started = time.perf_counter()
        counts = await asyncio.gather(*(work(f"w{n}", queue, per_claim) for n in range(CALLERS)))
        return sum(counts), time.perf_counter() - started

    async def work(
        self, worker_id: str, queue: str, per_claim: int, goes_on: Callable[[], bool] = lambda: True
    ) -> int:
        """Claim as the last claim's tasks are reported, until there is nothing left."""
        done = 0
        request: ClaimRequest | None = ClaimRequest(worker_id, (queue,), per_claim, start=True)
        completions: tuple[Completion, ...] = ()
        while True:
            [answer] = await self.turns.call([Turn(completions, request)])
            if isinstance(answer, Exception):
                raise answer
            _check(answer.completed)
            done += len(completions)
            claims = answer.claimed
            if isinstance(claims, Exception):
                raise claims
            if not claims:
                return done
            fences = [fence_of(found) for found in claims]
            self.seen.update((*fence.task_id, fence.attempt) for fence in fences)
            completions = tuple(Completion(fence, "succeeded") for fence in fences)
            request = request if goes_on() else None

    async def _work_apart(self, worker_id: str, queue: str, per_claim: int) -> int:
        done = 0
        while True:
            [claims] = await self.claims.call([ClaimRequest(worker_id, (queue,), per_claim)])
            if isinstance(claims, Exception):
                raise claims
            if not claims:
                return done
            fences = [fence_of(found) for found in claims]
            self.seen.update((*fence.task_id, fence.attempt) for fence in fences)
            _check(await self.reports.call([Report(f, TaskState.RUNNING) for f in fences]))
            _check(await self.completions.call([Completion(f, "succeeded") for f in fences]))
            done += len(fences)


def fence_of(found: Claim) -> Fence:
    """Take from a claim what its holder must present."""
    return Fence(found.task_id, found.attempt, found.lease_token)


def _check(answers: list[Any]) -> None:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer


class Floor:
    """The bare floor, driven by pgbench: a client in C, so that the floor is not Python's."""

    def __init__(self, url: str, folder: Path, rows: int = 100_000) -> None:
        self._url = url
        self._rows = rows
        self._script = folder / "floor.sql"

    async def prepare(self) -> None:
        """Make the table."""
        connection = await asyncpg.connect(self._url)
        await connection.execute(
            f"""create table floor (id int primary key, state smallint) with (fillfactor = 70);
                insert into floor select n, 1 from generate_series(1, {self._rows}) n"""
        )
        await connection.execute("vacuum analyze floor")
        await connection.close()
        self._script.write_text(
            f"\\set id random(1, {self._rows})\n"
            "update floor set state = 3 where id = :id;\n"
            "update floor set state = 4 where id = :id;\n"
        )

    async def pairs_per_second(self, seconds: int) -> float:
        """Run pairs of UPDATEs for a while."""
        return await asyncio.to_thread(self._run, seconds)

    def _run(self, seconds: int) -> float:
        command = [
            str(get_binaries() / "pgbench"), "-n", "-M", "prepared", "-c", str(FLOOR_CONNECTIONS),
            "-j", "2", "-T", str(seconds), "-f", str(self._script), self._url,
        ]  # fmt: skip
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        line = next(line for line in output.splitlines() if line.startswith("tps = "))
        return float(line.split()[2])


class Meter:
    """CPU seconds of this process and of Postgres, and bytes of WAL, over a stretch."""

    def __init__(self, url: str, postmaster: int) -> None:
        self._url = url
        self._postmaster = psutil.Process(postmaster)

    def cpu_seconds(self) -> float:
        """Add up the CPU time of us and of every Postgres process, living and reaped."""
        times = self._postmaster.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in self._postmaster.children(recursive=True):
            spent = child.cpu_times()
            total += spent.user + spent.system
        own = os.times()
        return total + own.user + own.system

    async def wal_bytes(self) -> int:
        """Read how much WAL has been written so far."""
        connection = await asyncpg.connect(self._url)
        try:
            position: int = await connection.fetchval(
                "select (pg_current_wal_insert_lsn() - '0/0')::bigint"
            )
            return position
        finally:
            await connection.close()


async def measure_renewals(bench: Bench, leases: int = 10_000) -> float:
    """Renew many leases in one call; returns the median milliseconds."""
    await bench.submit("renewals", leases)
    fences: list[Fence] = []
    while len(fences) < leases:
        [claims] = await claim(bench.ledger, [ClaimRequest("renewer", ("renewals",), 1000)])
        if isinstance(claims, Exception):
            raise claims
        fences += [fence_of(found) for found in claims]
    times = []
    for _ in range(5):
        started = time.perf_counter()
        _check(await renew(bench.ledger, fences))
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def median(rounds: int, run: Callable[[], Awaitable[float]]) -> float:
    """Run a few times and take the middle."""
    return statistics.median([await run() for _ in range(rounds)])


async def measure(options: argparse.Namespace, postgres: EmbeddedPostgres, folder: Path) -> Any:
    """Run everything; returns the figures."""
    postgres.create_database("bench")
    url = postgres.url("bench")
    await migrate(url)
    floor = Floor(url, folder)
    await floor.prepare()
    meter = Meter(url, postgres.pid)
    floors: list[float] = []
    ones: list[float] = []
    tens: list[float] = []
    apart: dict[int, list[float]] = {1: [], 10: []}
    submits: list[float] = []
    cpu: list[float] = []
    wal: list[float] = []
    async with Database(url, connections_max=6) as database:
        bench = Bench(Ledger(database))
        await bench.submit("warm", 2000)
        await bench.drain("warm", 10)
        for n in range(options.rounds):
            floors.append(await floor.pairs_per_second(options.seconds))
            submits.append(options.tasks / await bench.submit(f"one-{n}", options.tasks))
            tasks, seconds = await bench.drain(f"one-{n}", 1)
            ones.append(tasks / seconds)
            submits.append(options.tasks / await bench.submit(f"ten-{n}", options.tasks))
            spent, written = meter.cpu_seconds(), await meter.wal_bytes()
            tasks, seconds = await bench.drain(f"ten-{n}", 10)
            cpu.append((meter.cpu_seconds() - spent) * 1e6 / tasks)
            wal.append((await meter.wal_bytes() - written) / tasks)
            tens.append(tasks / seconds)
            for per_claim, rates in apart.items():
                queue = f"apart-{per_claim}-{n}"
                await bench.submit(queue, options.tasks)
                tasks, seconds = await bench.drain(queue, per_claim, apart=True)
                rates.append(tasks / seconds)
        figures = {
            "floor_pairs_per_s": statistics.median(floors),
            "cycle_1_per_s": statistics.median(ones),
            "cycle_10_per_s": statistics.median(tens),
            "cycle_1_ratio": statistics.median(ones) / statistics.median(floors),
            "cycle_10_ratio": statistics.median(tens) / statistics.median(floors),
            "cycle_1_apart_ratio": statistics.median(apart[1]) / statistics.median(floors),
            "cycle_10_apart_ratio": statistics.median(apart[10]) / statistics.median(floors),
            "cpu_us_per_task": statistics.median(cpu),
            "wal_bytes_per_task": statistics.median(wal),
            "submit_bulk_per_s": statistics.median(submits),
            "renew_10k_ms": await measure_renewals(bench),
        }
        if options.backlog:
            figures |= await measure_backlog(bench, options, url)
        figures["double_claims"] = sum(count - 1 for count in bench.seen.values())
    return figures


async def measure_backlog(bench: Bench, options: argparse.Namespace, url: str) -> dict[str, float]:
    """Compare draining a queue with a million more tasks behind it with draining it alone.

    Alone before the million is there, and beside it, in turn with the other.
    """
    alone, behind, beside = [], [], []
    for n in range(options.rounds):
        alone.append(await _drain_new(bench, f"alone-{n}", options.tasks))
    for _ in range(20):
        await bench.submit("backlog", 50_000)
    await settle(url)
    for n in range(options.rounds):
        tasks, seconds = await _drain_some(bench, "backlog", options.tasks)
        behind.append(tasks / seconds)
        beside.append(await _drain_new(bench, f"beside-{n}", options.tasks))
    rate = statistics.median(behind)
    return {
        "cycle_10_backlog_1m_ratio": rate / statistics.median(alone),
        "cycle_10_backlog_1m_beside_ratio": rate / statistics.median(beside),
    }


async def settle(url: str) -> None:
    """Have the database do now what it would do after a large submission in any case."""
    connection = await asyncpg.connect(url)
    await connection.execute("vacuum analyze")
    await connection.execute("checkpoint")
    await connection.close()


async def _drain_new(bench: Bench, queue: str, tasks: int) -> float:
    """Fill a queue and drain it; returns tasks per second."""
    await bench.submit(queue, tasks)
    drained, seconds = await bench.drain(queue, 10)
    return drained / seconds


async def _drain_some(bench: Bench, queue: str, tasks: int) -> tuple[int, float]:
    """Take a number of tasks of a long queue through their life."""
    left = tasks

    def goes_on() -> bool:
        nonlocal left
        left -= 10
        return left > 0

    started = time.perf_counter()
    counts = await asyncio.gather(
        *(bench.work(f"w{n}", queue, 10, goes_on) for n in range(CALLERS))
    )
    return sum(counts), time.perf_counter() - started


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("--backlog", action="store_true", help="also with a million queued")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=4, help="length of a round of the floor")
    options = parser.parse_args()
    collect_garbage_rarely(SERVER_ALLOCATIONS)  # as a server does
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "cluster") as postgres,
    ):
        figures = uvloop.run(measure(options, postgres, Path(folder)))
        figures["audit_findings"] = count_findings(postgres.url("bench"))
    rounded = {name: round(value, 3 if "ratio" in name else 1) for name, value in figures.items()}
    if options.json:
        print(json.dumps(rounded))
    else:
        for name, value in rounded.items():
            print(f"{name:28} {value:>12,}")


if __name__ == "__main__":
    main()
