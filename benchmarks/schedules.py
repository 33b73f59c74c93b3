"""What schedules cost that have nothing to do: the CPU of server and Postgres, with and without.

One server and one Postgres, nobody else. Then, of the same system: how long it takes to fire
thousands that all come at the same instant.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from benchmarks.peers.rounds import cpu_seconds
from holdfast.embedded import EmbeddedPostgres

SCHEDULES = 100_000
CPU_PERCENT_MUST = 5.0
SETTLE_SECONDS = 10.0
INSERT = """
insert into holdfast.schedules (name, spec, terms, created_at, created_by, changed_at, changed_by,
                                next_at, due_at)
select 's' || n, '{"entrypoint": {"function": "app:work"}, "queue": "bench"}',
       '{"cron": "0 3 * * *", "tz": "Europe/Berlin"}', now(), 'bench', now(), 'bench', at, at
  from generate_series(1, %s) as n, lateral (select now() + interval '1 day' + n * interval '0.5 s')
       as due(at)
"""
FIRE = "update holdfast.schedules set next_at = now(), due_at = now() where schedule_id <= %s"
LEFT = "select count(*) from holdfast.schedules where due_at <= now()"


def measure(count: int, seconds: float, fired: int) -> dict[str, float]:
    """Measure the idle system without schedules, with them, and while many come at once."""
    with tempfile.TemporaryDirectory() as name:
        postgres = EmbeddedPostgres(Path(name) / "postgres")
        postgres.start()
        try:
            postgres.create_database("holdfast")
            url = postgres.url("holdfast")
            server = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.app", "server", "--database-url", url,
                 "--port", "0", "--migrate"],
                stdout=subprocess.PIPE,
                text=True,
            )  # fmt: skip
            try:
                assert server.stdout is not None
                server.stdout.readline()
                with psycopg.connect(url, autocommit=True) as connection:
                    return _measure(
                        connection, server.pid, postgres.pid, count=count, seconds=seconds,
                        fired=fired,
                    )  # fmt: skip
            finally:
                server.terminate()
                server.wait()
        finally:
            postgres.stop()


def _measure(
    connection: psycopg.Connection,
    server: int,
    postmaster: int,
    *,
    count: int,
    seconds: float,
    fired: int,
) -> dict[str, float]:
    found: dict[str, float] = {"schedules": count}
    found |= _idle("without", server, postmaster, seconds=seconds)
    connection.execute(INSERT, [count])
    connection.execute("vacuum analyze holdfast.schedules")
    found |= _idle("with", server, postmaster, seconds=seconds)
    found["added_cpu_percent"] = round(
        sum(found[f"{part}_with_percent"] - found[f"{part}_without_percent"]
            for part in ("server", "postgres")), 2,
    )  # fmt: skip
    began_at = time.perf_counter()
    connection.execute(FIRE, [fired])
    while (row := connection.execute(LEFT).fetchone()) is not None and row[0]:
        time.sleep(0.05)
    found["fired_per_second"] = round(fired / (time.perf_counter() - began_at), 1)
    return found


def _idle(label: str, server: int, postmaster: int, *, seconds: float) -> dict[str, float]:
    """Measure what is used while nobody asks for anything, in percent of a core."""
    time.sleep(SETTLE_SECONDS)
    before, began_at = (cpu_seconds(server), cpu_seconds(postmaster)), time.perf_counter()
    time.sleep(seconds)
    passed = time.perf_counter() - began_at
    used = cpu_seconds(server) - before[0], cpu_seconds(postmaster) - before[1]
    return {
        f"server_{label}_percent": round(100 * used[0] / passed, 2),
        f"postgres_{label}_percent": round(100 * used[1] / passed, 2),
    }


def main() -> None:
    """Measure, and print what was found; exit code 1 if a must does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fired", type=int, default=5000)
    options = parser.parse_args()
    found = measure(options.schedules, options.seconds, options.fired)
    holds = found["added_cpu_percent"] < CPU_PERCENT_MUST
    if options.json:
        print(json.dumps(found | {"musts_hold": holds}))
    else:
        for name, value in found.items():
            print(f"{name:28}{value:>10}")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
