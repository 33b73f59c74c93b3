"""What NOTIFY costs: commits per second with and without it, 64 writers, in interleaved rounds.

Three kinds of writers on one embedded Postgres with fsync on: bare inserts, each its own commit;
`select holdfast.submit(...)`, as users call it in transactions of their own; and callers of a
server, which gathers what they submit, and its hints, too.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from holdfast.cli.garbage import SERVER_ALLOCATIONS, collect_garbage_rarely
from holdfast.embedded import EmbeddedPostgres
from holdfast.embedded.binaries import get_binaries
from holdfast.model.submitting.spec import Submission
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.store.migrate import migrate

WRITERS = 64
# No colon before a letter: pgbench would take that for a variable.
SPEC = {"entrypoint": {"command": ["true"]}, "queue": "q"}
BARE = "insert into bare default values;\n"
NOTIFIED = f"begin;\n{BARE}select pg_notify('bare', 'q');\ncommit;\n"
SILENT = f"begin;\n{BARE}select 1;\ncommit;\n"
SUBMIT = f"select holdfast.submit('{json.dumps(SPEC)}');\n"


class Bench:
    """One database, and writers of three kinds."""

    def __init__(self, url: str, folder: Path, seconds: float) -> None:
        self._url = url
        self._folder = folder
        self._seconds = seconds

    async def run_script(self, text: str, settings: str = "") -> float:
        """Let 64 connections run a script again and again; returns commits per second."""
        return await asyncio.to_thread(self._run_script, text, settings)

    def _run_script(self, text: str, settings: str) -> float:
        script = self._folder / "script.sql"
        script.write_text(text)
        command = [
            str(get_binaries() / "pgbench"), "-n", "-M", "prepared", "-c", str(WRITERS),
            "-j", "2", "-T", str(max(round(self._seconds), 1)), "-f", str(script),
            f"{self._url}{settings}",
        ]  # fmt: skip
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        line = next(line for line in output.splitlines() if line.startswith("tps = "))
        return float(line.split()[2])

    async def submit_to(self, server: Runtime) -> float:
        """Let 64 callers submit jobs of one task; returns how many are acknowledged a second."""
        count = 0
        ends_at = time.perf_counter() + self._seconds

        async def call() -> None:
            nonlocal count
            while time.perf_counter() < ends_at:
                await server.writers.submit(Submission(parse_spec(SPEC)))
                count += 1

        await asyncio.gather(*(call() for _ in range(WRITERS)))
        return count / self._seconds


async def measure(options: argparse.Namespace, url: str, folder: Path) -> dict[str, Any]:
    """Run each kind with and without, in turn; returns medians and ratios."""
    await migrate(url)
    connection = await asyncpg.connect(url)
    await connection.execute("create table bare (id bigserial)")
    await connection.close()
    bench = Bench(url, folder, options.seconds)
    async with (
        open_runtime(Options(url)) as notifying,
        open_runtime(Options(url, uses_notify=False)) as silent,
    ):
        kinds: dict[str, tuple[Callable[[], Awaitable[float]], ...]] = {
            "bare": (lambda: bench.run_script(NOTIFIED), lambda: bench.run_script(SILENT)),
            "sql_submit": (
                lambda: bench.run_script(SUBMIT),
                lambda: bench.run_script(SUBMIT, "&options=-c%20holdfast.notify%3Doff"),
            ),
            "server": (lambda: bench.submit_to(notifying), lambda: bench.submit_to(silent)),
        }
        found: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for kind, ways in kinds.items():
                for name, way in zip(("with", "without"), ways, strict=True):
                    found.setdefault(f"{kind}_{name}_per_s", []).append(await way())
    figures = {name: statistics.median(each) for name, each in found.items()}
    for kind in kinds:
        figures[f"{kind}_ratio"] = figures[f"{kind}_with_per_s"] / figures[f"{kind}_without_per_s"]
    return figures


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    collect_garbage_rarely(SERVER_ALLOCATIONS)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "cluster") as postgres,
    ):
        postgres.create_database("bench")
        figures = uvloop.run(measure(options, postgres.url("bench"), Path(folder)))
    rounded = {name: round(value, 3 if "ratio" in name else 1) for name, value in figures.items()}
    if options.json:
        print(json.dumps(rounded))
        return
    for name, value in rounded.items():
        print(f"{name:28} {value:>12,}")


if __name__ == "__main__":
    main()
