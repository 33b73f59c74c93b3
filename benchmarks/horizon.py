"""What a claim costs while somebody keeps vacuum from removing the rows that claims have deleted.

Two queues of one kind on two databases of one embedded Postgres, in interleaved rounds: in one an
idle transaction pins the horizon, in the other vacuum may do its work. After every so many dead
rows, claims of a hundred are timed on both, through the ledger, as a server makes them.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from prometheus_client import CollectorRegistry

from holdfast.cli.garbage import SERVER_ALLOCATIONS, collect_garbage_rarely
from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.measuring.horizon import HorizonWatchdog
from holdfast.store.database import Database
from holdfast.store.migrate import migrate

QUEUE = "q"
# Claims of so many leave dead rows behind; claims of so many are timed.
FILL, TIMED = 1000, 100
DEAD = "select n_dead_tup from pg_stat_user_tables where relid = 'holdfast.ready'::regclass"


class Line:
    """One ledger with a queue in it."""

    def __init__(self, database: Database) -> None:
        self._ledger = Ledger(database)
        self._watchdog = HorizonWatchdog(
            database, CollectorRegistry(), on_held=self._ledger.positions.note_held
        )

    async def submit(self, tasks: int) -> None:
        """Put tasks in line."""
        spec = parse_spec({"entrypoint": {"function": "app:send"}, "queue": QUEUE})
        await submit_one(self._ledger, Submission(spec, ("1",) * tasks))
        await follow_up_all(self._ledger)

    async def take(self, count: int, each: int) -> list[float]:
        """Claim so many tasks; returns the milliseconds of each claim."""
        times = []
        for _ in range(count // each):
            started = time.perf_counter()
            [found] = await claim(self._ledger, [ClaimRequest("w", (QUEUE,), each)])
            assert not isinstance(found, Exception)
            assert len(found) == each, found
            times.append((time.perf_counter() - started) * 1000)
        return times

    async def watch(self) -> None:
        """Look who holds the horizon, as a server does."""
        await self._watchdog.look()


async def count_dead(url: str) -> int:
    """Count the rows of the line that are dead and still there."""
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(DEAD))
    finally:
        await connection.close()


async def measure(options: argparse.Namespace, postgres: EmbeddedPostgres) -> dict[str, Any]:
    """Fill both, step by step; returns a curve."""
    urls = {}
    for name in ("pinned", "free"):
        postgres.create_database(name)
        urls[name] = postgres.url(name)
        await migrate(urls[name])
    idle = await asyncpg.connect(urls["pinned"])
    curve = []
    async with (
        Database(urls["pinned"], connections_max=2) as pinned,
        Database(urls["free"], connections_max=2) as free,
    ):
        lines = {"pinned": Line(pinned), "free": Line(free)}
        for line in lines.values():
            await line.submit(options.dead + options.step + 40 * TIMED * options.steps)
            await line.take(FILL, TIMED)
        await idle.execute("begin isolation level repeatable read; select 1 from pg_class")
        for step in range(options.steps + 1):
            if step:
                for line in lines.values():
                    await line.take(options.dead // options.steps, FILL)
            vacuum = await asyncpg.connect(urls["free"])
            await vacuum.execute("vacuum holdfast.ready")
            await vacuum.close()
            for line in lines.values():
                await line.watch()
            point: dict[str, float] = {"dead_rows": step * options.dead // options.steps}
            times: dict[str, list[float]] = {name: [] for name in lines}
            for _ in range(options.rounds):
                for name, line in lines.items():
                    times[name] += await line.take(2 * TIMED, TIMED)
            for name, found in times.items():
                point[f"{name}_ms"] = statistics.median(found)
                point[f"{name}_mean_ms"] = statistics.mean(found)
                point[f"{name}_max_ms"] = max(found)
            point["ratio"] = point["pinned_ms"] / point["free_ms"]
            point["mean_ratio"] = point["pinned_mean_ms"] / point["free_mean_ms"]
            curve.append(point)
    await idle.close()
    return {"curve": curve, "ratio": curve[-1]["ratio"], "mean_ratio": curve[-1]["mean_ratio"]}


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("--dead", type=int, default=200_000, help="dead rows in the end")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    options.step = options.dead // options.steps
    collect_garbage_rarely(SERVER_ALLOCATIONS)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "cluster") as postgres,
    ):
        figures = uvloop.run(measure(options, postgres))
    for point in figures["curve"]:
        point.update({name: round(value, 2) for name, value in point.items()})
    if options.json:
        print(json.dumps({**figures, **{k: round(figures[k], 2) for k in ("ratio", "mean_ratio")}}))
        return
    for point in figures["curve"]:
        print("  ".join(f"{name} {value:,}" for name, value in point.items()))


if __name__ == "__main__":
    main()
