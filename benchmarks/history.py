"""What a long history costs: claims, ends and lists with millions of finished tasks, and without.

Fills a ledger by SQL, then measures the same things on it as before it was filled: tasks driven
through claim, start and end by 64 callers, and every read of a page through HTTP.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.audited import count_findings
from benchmarks.dashboard import measure_queries, queries, server
from benchmarks.dashboard_fill import work_off
from benchmarks.history_fill import fill_history
from benchmarks.ledger import Bench
from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Database
from holdfast.store.migrate import migrate

GB = 1 << 30
DRAIN_TASKS = 10_000
PER_CLAIM = 10


async def measure_drain(database: Database, rounds: int) -> float:
    """Take tasks through claim, start and end; returns tasks per second."""
    bench = Bench(Ledger(database))
    rates = []
    for _ in range(rounds):
        queue = f"bench-{time.monotonic_ns()}"
        await bench.submit(queue, DRAIN_TASKS)
        tasks, seconds = await bench.drain(queue, PER_CLAIM)
        rates.append(tasks / seconds)
    return statistics.median(rates)


async def prepare(url: str, options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """Measure on an empty ledger, fill it, measure again; returns the id of a large job, too."""
    await migrate(url)
    async with Database(url, connections_max=6) as database:
        ledger = Ledger(database)
        await measure_drain(database, 1)
        before = await measure_drain(database, options.rounds)
        began = time.monotonic()
        filled = await fill_history(
            ledger, url, tasks=options.tasks, seconds_max=options.fill_seconds
        )
        seconds = time.monotonic() - began
        after = await measure_drain(database, options.rounds)
        many = await work_off(ledger, options.many, share=0.6)
    connection = await asyncpg.connect(url)
    await connection.execute("vacuum analyze", timeout=600)
    size = await connection.fetchval("select pg_database_size(current_database())")
    partitions = await connection.fetchval(
        "select count(*) from pg_inherits where inhparent = 'holdfast.tasks'::regclass"
    )
    await connection.close()
    figures = {
        "finished_tasks": filled,
        "partitions": partitions,
        "database_gb": round(size / GB, 1),
        "fill_seconds": round(seconds),
        "empty_per_s": round(before),
        "filled_per_s": round(after),
        "filled_to_empty_ratio": round(after / before, 3),
    }
    return figures, many


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fill and measure everything."""
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        EmbeddedPostgres(Path(folder)) as postgres,
    ):
        postgres.create_database("bench")
        url = postgres.url("bench")
        figures, many = asyncio.run(prepare(url, options))
        with server(url) as address:
            paths = queries(options.tasks, many, options.many)
            found, first = measure_queries(address, paths, options.rounds * 3)
        if options.audit:
            figures["audit_findings"] = count_findings(url)
    return {
        **figures,
        "query_ms_max": max(found.values()),
        "query_first_ms_max": max(first.values()),
        "query_ms": found,
        "query_first_ms": first,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--tasks", type=int, default=10_000_000, help="finished tasks to fill in")
    parser.add_argument("--fill-seconds", type=float, default=600.0, help="at most")
    parser.add_argument("--many", type=int, default=100_000, help="tasks of the job that is read")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where there is room; about 1 GB a million")
    parser.add_argument("--audit", action="store_true", help="replay every event at the end, too")
    options = parser.parse_args()
    figures = measure(options)
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        if isinstance(figure, dict):
            print(f"{name}:")
            for part, value in figure.items():
                print(f"  {part:32} {value:>8}")
        else:
            print(f"{name:34} {figure:>8}")


if __name__ == "__main__":
    main()
