"""What a pass of the scheduler costs, and how much it places beside a plain search task by task.

Everything is made by a fixed recipe, so that two runs plan the same; the clock runs only while a
plan is made. The plain search is too slow for the whole, so it gets a smaller copy of the snapshot.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.model.workers.resources import Capacity, Constraint
from holdfast.rules.placement.scheduler import Demand, Plan, Shape, WorkerView, plan
from tests.rules.naive_placement import naive_plan

GB = 10**9
NOW = 1_000_000.0
REGIONS = ("eu", "us", "ap")
KINDS = (
    Capacity(cpu=4, memory=16 * GB, disk=100 * GB),
    Capacity(cpu=16, memory=64 * GB, disk=200 * GB),
    Capacity(cpu=64, memory=512 * GB, disk=1000 * GB),
    Capacity(cpu=32, memory=256 * GB, disk=1000 * GB, gpu=4, gpu_model="A100"),
    Capacity(cpu=96, memory=1000 * GB, disk=4000 * GB, gpu=8, gpu_model="H100"),
)
CONSTRAINTS = tuple(
    msgspec.json.encode(each).decode()
    for each in (
        Constraint("region", "=", "eu"),
        Constraint("region", "in", ["us", "ap"]),
        Constraint("rack", "<", 50),
    )
)
MUST = {"pass_ms": 250.0, "pass_distinct_ms": 1000.0, "naive_placed_ratio": 0.99}


def make_workers(count: int, *, used: float = 0.0) -> list[WorkerView]:
    """Make workers of a few kinds, most of them without gpus; `used` is a share of their cpu."""
    workers = []
    for number in range(count):
        kind = KINDS[(0, 1, 1, 2, 1, 0, 3, 1, 2, 4)[number % 10]]
        share = used * (number * 7 % 10) / 9
        workers.append(
            WorkerView(
                worker_id=f"id-{number}",
                name=f"worker-{number:06}",
                host=f"host-{number}",
                capacity=kind,
                attributes={"region": REGIONS[number // 10 % 3], "rack": number // 40},
                used=Capacity(cpu=int(kind.cpu * share), memory=int(kind.memory * share)),
                ports_free=1000,
                unstarted=0,
                accepts=number % 97 != 0,
                why_not="draining" if number % 97 == 0 else None,
            )
        )
    return workers


def make_shape(number: int) -> Shape:
    """Make the shape of a number; different numbers make different shapes."""
    gpu = (0, 0, 0, 0, 0, 0, 0, 1, 2, 4)[number % 10]
    return Shape(
        cpu=(0.5, 1, 1, 2, 2, 3, 4, 6, 8, 12)[number * 7 % 10],
        memory=(1 + number * 3 % 24) * GB + number,
        disk=(0, GB, 10 * GB)[number % 3],
        gpu=gpu,
        gpu_model="H100" if gpu == 4 else None,
        ports=int(number % 20 == 3),
        constraints=() if number % 4 else (CONSTRAINTS[number // 4 % 3],),
        group_by=None,
    )


def make_demands(jobs: int, tasks: int) -> list[Demand]:
    """Make one demand per job, each of a shape of its own, all of them waiting for long."""
    return [
        Demand(
            job_id=number,
            priority=number % 3,
            since=NOW - 3600 + number,
            count=tasks,
            shape=make_shape(number),
            gang=None,
            gang_missing=0,
            avoid=None,
        )
        for number in range(jobs)
    ]


def time_passes(rounds: int, run: Callable[[], Plan]) -> tuple[float, float, int]:
    """Plan several times; returns the median milliseconds, those of CPU, and the tasks placed."""
    times, cpu = [], []
    for _ in range(rounds):
        started, spent = time.perf_counter(), time.process_time()
        found = run()
        times.append((time.perf_counter() - started) * 1000)
        cpu.append((time.process_time() - spent) * 1000)
    return statistics.median(times), statistics.median(cpu), count_tasks(found)


def count_tasks(found: Plan) -> int:
    """Count the tasks that a plan places."""
    return sum(placement.count for placement in found.placements)


def measure(rounds: int) -> dict[str, Any]:
    """Run everything; returns the figures."""
    workers, half_used = make_workers(10_000), make_workers(10_000, used=1.0)
    many, distinct = make_demands(1_000, 1_000), make_demands(10_000, 1)
    figures: dict[str, Any] = {}
    for name, run in {
        "": lambda: plan(workers, many, NOW),
        "_distinct": lambda: plan(workers, distinct, NOW),
        "_half_used": lambda: plan(half_used, many, NOW, unstarted_max=1000),
    }.items():
        wall, cpu, placed = time_passes(rounds, run)
        figures |= {f"pass{name}_ms": wall, f"pass{name}_cpu_ms": cpu, f"placed{name}": placed}
    few, demands = make_workers(60, used=1.0), make_demands(40, 40)
    naive, _ = naive_plan(few, demands, NOW)
    figures["naive_placed_ratio"] = count_tasks(plan(few, demands, NOW)) / count_tasks(naive)
    return figures


def find_misses(figures: dict[str, Any]) -> list[str]:
    """List the figures that are not what they must be."""
    slow = [name for name in ("pass_ms", "pass_distinct_ms") if figures[name] > MUST[name]]
    loose = figures["naive_placed_ratio"] < MUST["naive_placed_ratio"]
    return slow + ["naive_placed_ratio"] * loose


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    figures = measure(options.rounds)
    misses = find_misses(figures)
    rounded = {
        name: round(value, 4 if "ratio" in name else 1) if isinstance(value, float) else value
        for name, value in figures.items()
    }
    if options.json:
        print(json.dumps(rounded | {"must_holds": not misses}))
        return
    for name, value in rounded.items():
        must = f"   must: {MUST[name]:,}" if name in MUST else ""
        print(f"{name:22} {value:>12,}{must}")
    print(f"every must holds: {'yes' if not misses else 'no: ' + ', '.join(misses)}")


if __name__ == "__main__":
    main()
