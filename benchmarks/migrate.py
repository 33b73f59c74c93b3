"""How long writers wait while `holdfast db migrate` changes the schema beneath them.

Each round has a database of its own, as the version before this one has made it, with tasks in it
and partitions. That version's own operations submit, claim, start, renew and complete all the
while; a reader keeps a transaction open now and then, longer than a migration waits for a lock. For
some seconds nothing else goes on, and for as many the schema is brought up to this version's. What
nobody may be held up for is 250 ms more than the longest wait without a migration.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import asyncpg

from holdfast.embedded import EmbeddedPostgres
from holdfast.store.migrate import check_schema, migrate
from tests.upgrade.previous import ROOT, load_previous_schema, take_out_previous

WAIT_MS_MAX = 250
TEMPLATE = "template_before"
IDS_OF_A_PARTITION = 1000
FIRST_FREE_ID = 10_001  # of the partition that the schema comes with
SECONDS_MAX = 120


class Taken(NamedTuple):
    """An operation: when it began, and how long it took, in seconds."""

    operation: str
    began: float
    seconds: float


class Round(NamedTuple):
    """What operations took without a migration, and with one."""

    without: list[Taken]
    beside: list[Taken]
    migration_seconds: float


class Previous:
    """The version before this one, with a database of its making."""

    def __init__(self, postgres: EmbeddedPostgres, folder: Path) -> None:
        self._postgres = postgres
        self._folder = take_out_previous(folder)

    def make_template(self, *, tasks: int, partitions: int) -> None:
        """Make the database that every round gets a copy of."""
        self._postgres.create_database(TEMPLATE)
        url = self._postgres.url(TEMPLATE)
        asyncio.run(_make_tables(url, self._folder, partitions))
        load = self.start_load(url, f"--fill={tasks}")
        load.communicate(timeout=SECONDS_MAX)
        assert load.returncode == 0, "the database was not filled"
        asyncio.run(_run(url, "vacuum analyze"))

    def copy(self, name: str) -> str:
        """Make a database for a round; returns its URL."""
        admin = self._postgres.url("postgres")
        asyncio.run(_run(admin, f"create database {name} template {TEMPLATE}", "checkpoint"))
        return self._postgres.url(name)

    def start_load(self, url: str, *options: str) -> subprocess.Popen[str]:
        """Start that version's operations on a database."""
        path = os.pathsep.join([str(self._folder), str(ROOT)])
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.migrate_load", url, str(self._folder), *options],
            env={**os.environ, "PYTHONPATH": path},
            cwd=self._folder,
            stdout=subprocess.PIPE,
            text=True,
        )


async def _make_tables(url: str, previous: Path, partitions: int) -> None:
    await migrate(url, load_previous_schema(previous))
    ranges = (
        (FIRST_FREE_ID + n * IDS_OF_A_PARTITION, FIRST_FREE_ID + (n + 1) * IDS_OF_A_PARTITION)
        for n in range(partitions)
    )
    await _run(url, *(f"select holdfast.add_partition({a}, {b})" for a, b in ranges))


async def _run(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def run_round(previous: Previous, url: str, seconds: float) -> Round:
    """Let the load run without and with a migration, for equal times."""
    load = previous.start_load(url, f"--seconds={2 * seconds}")
    try:
        assert load.stdout is not None
        assert load.stdout.readline() == "ready\n", "the load did not start"
        began = time.monotonic()
        time.sleep(seconds)
        migrated_from = time.monotonic()
        asyncio.run(migrate(url))
        migrated_to = time.monotonic()
        output, _ = load.communicate(timeout=SECONDS_MAX)
    finally:
        load.kill()
        load.wait()
    assert load.returncode == 0, "the load has failed"
    asyncio.run(check_schema(url))
    taken = [Taken(*each) for each in json.loads(output)]
    ends = max(migrated_to, migrated_from + seconds)
    return Round(
        [each for each in taken if began <= each.began and _end(each) <= migrated_from],
        [each for each in taken if _end(each) > migrated_from and each.began <= ends],
        migrated_to - migrated_from,
    )


def _end(taken: Taken) -> float:
    return taken.began + taken.seconds


def summarize(rounds: list[Round]) -> dict[str, object]:
    """Compare what was taken in all rounds."""
    without = [each for found in rounds for each in found.without]
    beside = [each for found in rounds for each in found.beside]
    longest_without, longest_beside = (
        max(each.seconds for each in taken) * 1000 for taken in (without, beside)
    )
    figures: dict[str, object] = {
        "longest_ms_without": round(longest_without, 1),
        "longest_ms_beside": round(longest_beside, 1),
        "must_holds": longest_beside <= longest_without + WAIT_MS_MAX,
        "migration_seconds": [round(found.migration_seconds, 2) for found in rounds],
        "operations_without": len(without),
        "operations_beside": len(beside),
    }
    for name in sorted({each.operation for each in without}):
        for when, taken in (("without", without), ("beside", beside)):
            ms = sorted(each.seconds * 1000 for each in taken if each.operation == name)
            figures[f"{name}_p99_ms_{when}"] = round(ms[int(len(ms) * 0.99)], 1)
            figures[f"{name}_max_ms_{when}"] = round(ms[-1], 1)
    return figures


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Run the rounds; returns the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name,
        EmbeddedPostgres(Path(name) / "cluster") as postgres,
    ):
        (Path(name) / "previous").mkdir()
        previous = Previous(postgres, Path(name) / "previous")
        previous.make_template(tasks=options.tasks, partitions=options.partitions)
        urls = [previous.copy(f"round_{n}") for n in range(options.rounds)]
        return summarize([run_round(previous, url, options.seconds) for url in urls])


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="without, and again with one")
    parser.add_argument("--tasks", type=int, default=50_000, help="queued before")
    parser.add_argument("--partitions", type=int, default=20, help="besides the first")
    options = parser.parse_args()
    figures = measure(options)
    if options.json:
        print(json.dumps(figures))
        return
    for key, value in figures.items():
        print(f"{key:24} {value}")


if __name__ == "__main__":
    main()
