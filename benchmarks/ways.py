"""Drain no-op tasks by two or more ways of running Holdfast, round by round, and compare them."""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.rounds import Drained
from benchmarks.queue import Contender
from holdfast.embedded import EmbeddedPostgres

# Given the URL of a database of its own and a folder: the variables of its processes.
Way = Callable[[str, Path], Mapping[str, str]]


def run_plainly(_url: str, _folder: Path) -> Mapping[str, str]:
    """Run it as it is: what the other ways are compared with."""
    return {}


@contextmanager
def variables(changed: Mapping[str, str]) -> Iterator[None]:
    """Have other variables for the processes that are started within a block."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


def measure(ways: Mapping[str, Way], options: argparse.Namespace) -> dict[str, float]:
    """Measure each way in turn, round by round; the first is what the others are compared with."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = EmbeddedPostgres(folder / "postgres")
        stack.callback(postgres.stop)
        postgres.start()
        contenders: dict[str, Contender] = {}
        for name, way in ways.items():
            postgres.create_database(name)
            url, own = postgres.url(name), folder / name
            own.mkdir()
            with variables(way(url, own)):
                contender = Contender(postgres.pid, url, options.concurrency, own)
            stack.callback(contender.stop)
            contenders[name] = contender
            contender.drain(options.tasks // 4)
        drained: dict[str, list[Drained]] = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, contender in contenders.items():
                drained[name].append(contender.drain(options.tasks))
    found: dict[str, float] = {}
    for name, rounds in drained.items():
        found[f"{name}_per_s"] = statistics.median(d.per_s for d in rounds)
        found[f"{name}_cpu_us_per_task"] = statistics.median(d.cpu_us_per_task for d in rounds)
    first, *others = ways
    for name in others:
        for what in ("per_s", "cpu_us_per_task"):
            found[f"{name}_to_{first}_{what}"] = found[f"{name}_{what}"] / found[f"{first}_{what}"]
    return found


def report(ways: Mapping[str, Way], description: str | None) -> None:
    """Measure, as the command line says, and print what was found."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=500)
    options = parser.parse_args()
    found = {name: round(value, 3) for name, value in measure(ways, options).items()}
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:30} {value:12,.2f}")
