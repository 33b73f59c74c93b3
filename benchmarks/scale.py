"""What several servers and workers on one Postgres do together, and what each part of it costs.

Every combination is started anew, in a database of its own, on one embedded Postgres with fsync on.
CPU is told by component, and from that of Postgres follows how many tasks a second one CPU of its
machine would do if servers and workers stood elsewhere. docs/benchmarks.md has the model.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.rounds import Drained
from benchmarks.queue import PROGRAM, Contender
from holdfast.embedded import EmbeddedPostgres

# Servers and worker processes.
COMBINATIONS = "1x1,1x2,1x4,1x8,2x2,2x4,2x8,4x4,4x8"
WRITERS = "1,2,4,8"
WRITERS_ARE_MEASURED_WITH = (1, 2)
PARTS = ("server", "worker", "postgres")


class Scale:
    """Combinations, each in its turn."""

    def __init__(self, postgres: EmbeddedPostgres, folder: Path, options: argparse.Namespace):
        self._postgres = postgres
        self._folder = folder
        self._options = options
        self._databases = 0
        self.audit_findings = 0

    def drain(self, servers: int, workers: int, program: tuple[str, ...]) -> list[Drained]:
        """Start so many of each, drain once to warm up, and then as often as asked."""
        self._databases += 1
        name = f"bench{self._databases}"
        self._postgres.create_database(name)
        (self._folder / name).mkdir()
        contender = Contender(
            self._postgres.pid,
            self._postgres.url(name),
            self._options.concurrency,
            self._folder / name,
            program=program,
            servers=servers,
            workers=workers,
        )
        try:
            contender.drain(self._options.tasks // 4)
            drained = [contender.drain(self._options.tasks) for _ in range(self._options.rounds)]
            self.audit_findings += contender.audit()
            return drained
        finally:
            contender.stop()


def summarise(rounds: list[Drained], prefix: str) -> dict[str, float]:
    """Take the medians; `per_postgres_cpu` is what a CPU that does nothing else would bear."""
    found = {
        f"{prefix}_{part}_us": statistics.median(d.parts[part] for d in rounds) for part in PARTS
    }
    found[f"{prefix}_per_s"] = statistics.median(d.per_s for d in rounds)
    found[f"{prefix}_per_postgres_cpu"] = 1e6 / found[f"{prefix}_postgres_us"]
    return found


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Measure every combination, then numbers of writers."""
    found: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder) / "postgres") as postgres,
    ):
        scale = Scale(postgres, Path(folder), options)
        for combination in filter(None, options.combinations.split(",")):
            servers, workers = map(int, combination.split("x"))
            rounds = scale.drain(servers, workers, (str(PROGRAM),))
            found |= summarise(rounds, f"servers_{servers}_workers_{workers}")
        for count in filter(None, options.writers.split(",")):
            program = (sys.executable, "-m", "benchmarks.writers_at_once", count)
            rounds = scale.drain(*WRITERS_ARE_MEASURED_WITH, program)
            found |= summarise(rounds, f"writers_{count}")
        found["audit_findings"] = scale.audit_findings
    return found


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=500)
    parser.add_argument("--combinations", default=COMBINATIONS, help="servers x workers, by commas")
    parser.add_argument("--writers", default=WRITERS, help="numbers of writes at once, by commas")
    options = parser.parse_args()
    found = {name: round(value, 1) for name, value in measure(options).items()}
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:40} {value:12,.1f}")


if __name__ == "__main__":
    main()
