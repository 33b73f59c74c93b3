"""Run a benchmark of this checkout and of another one in turn, and compare what they found.

    ./run bench NAME --before FOLDER [--turns 4] [--json] [the benchmark's own options]

Machines are noisy: only figures of one run are compared, by their medians over the turns. Every
other turn goes the other way round, so that neither always runs on a machine the other has warmed.
Each checkout runs its own code of the benchmark, with the packages of this one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
TURN_SECONDS_MAX = 1800

Figures = dict[str, float]


def run(name: str, folder: Path, options: list[str]) -> Figures:
    """Run a benchmark of one checkout; returns its figures."""
    output = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--json", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TURN_SECONDS_MAX,
    ).stdout
    return flatten(json.loads(output.splitlines()[-1]))


def compare(before: list[Figures], after: list[Figures]) -> dict[str, Figures]:
    """Take the medians of both, and what each figure is now by what it was."""
    was, now = (
        {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
        for turns in (before, after)
    )
    shared = [name for name in now if name in was]
    ratios = {name: round(now[name] / was[name], 3) if was[name] else 0.0 for name in shared}
    return {"before": was, "after": now, "ratio": ratios}


def flatten(found: dict[str, Any], prefix: str = "") -> Figures:
    """List the figures of a benchmark, those of groups under the names of both."""
    figures: Figures = {}
    for name, value in found.items():
        if isinstance(value, dict):
            figures |= flatten(value, f"{prefix}{name} ")
        elif isinstance(value, int | float):
            figures[prefix + name] = value
    return figures


def main() -> None:
    """Read the options, run in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--before", type=Path, required=True, help="a checkout of another version")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    options, rest = parser.parse_known_args()
    folder = options.before.resolve()
    if not (folder / "benchmarks" / f"{options.name}.py").is_file():
        parser.error(f"--before: {folder} is no checkout with a benchmark {options.name}")
    before: list[Figures] = []
    after: list[Figures] = []
    for turn in range(options.turns):
        sides = [(before, folder), (after, HERE)]
        for figures, checkout in sides if turn % 2 == 0 else reversed(sides):
            figures.append(run(options.name, checkout, rest))
    found = compare(before, after)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'':28} {'before':>12} {'after':>12} {'ratio':>8}")
    for name, ratio in found["ratio"].items():
        was, now = found["before"][name], found["after"][name]
        print(f"{name:28} {was:>12,.1f} {now:>12,.1f} {ratio if was else '':>8}")


if __name__ == "__main__":
    main()
