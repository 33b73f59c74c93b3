"""Follow single tasks through an idle Holdfast, from the call that submits one to its function.

The processes note when each step is passed (benchmarks/idle_stamps.py), on one machine's clock.
"""

import argparse
import bisect
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.idle_stamps import Stamps, note_client
from benchmarks.queue import LATENCY_PER_SECOND, Contender
from benchmarks.queue_tasks import tell_start
from holdfast.embedded import EmbeddedPostgres

# In the order in which a task passes them; each is looked for after the one before.
STEPS = (
    "client sends",
    "server reads a request",
    "submission begins",
    "submission is committed",
    "claim is given",
    "server answers",
    "worker has the answer",
    "worker begins",
    "function is handed on",
    "user loop takes it",
    "function begins",
)
# Beside that way: the answer to the submission.
ASIDE = ("server answers the submission", "client has the answer")
WARM = 100


def measure(count: int, drained: int) -> dict[str, list[float]]:
    """Submit tasks one by one; gives the milliseconds from each call to each step of its task."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stamps_file = folder / "stamps"
        program = (sys.executable, "-m", "benchmarks.idle_stamps", str(stamps_file))
        postgres = EmbeddedPostgres(folder / "postgres")
        postgres.start()
        try:
            postgres.create_database("holdfast")
            url = postgres.url("holdfast")
            ours = Contender(postgres.pid, url, 500, folder, program=program)
            try:
                if drained:
                    ours.drain(drained)
                began = _submit(ours, stamps_file, count)
                if findings := ours.audit():
                    raise RuntimeError(f"the audit has {findings} findings")
            finally:
                ours.stop()
        finally:
            postgres.stop()
        return _follow(began[WARM:], stamps_file.read_text())


def _submit(ours: Contender, stamps_file: Path, count: int) -> list[int]:
    note_client(Stamps(str(stamps_file)))
    ours.pause(False)
    time.sleep(1)
    began, jobs = [], []
    next_at = time.perf_counter()
    for number in range(count + WARM):
        time.sleep(max(next_at - time.perf_counter(), 0))
        next_at += 1 / LATENCY_PER_SECOND
        began.append(time.monotonic_ns())
        jobs.append(ours.client.submit(tell_start, number))
    for job in jobs:
        job.result(timeout=30)
    return began


def _follow(began: list[int], text: str) -> dict[str, list[float]]:
    """Find for each call the first time that each step was passed after the step before."""
    passed: dict[str, list[int]] = {step: [] for step in STEPS + ASIDE}
    for line in text.splitlines():
        passed_step, time_text = line.rsplit(" ", 1)
        passed[passed_step].append(int(time_text))
    for times in passed.values():
        times.sort()
    found: dict[str, list[float]] = {step: [] for step in STEPS + ASIDE}
    for at, ends_at in zip(began, [*began[1:], began[-1] + 10**9], strict=True):
        if passed["function begins"][bisect.bisect(passed["function begins"], at)] > ends_at:
            continue  # so late that it cannot be told from the next one
        way = [at]
        for step in STEPS:
            later = bisect.bisect(passed[step], way[-1])
            if later == len(passed[step]) or passed[step][later] > ends_at:
                break  # it went another way: nobody was waiting, and the claim found it
            way.append(passed[step][later])
        else:
            for step, passed_at in zip(STEPS, way[1:], strict=True):
                found[step].append((passed_at - at) / 1e6)
            for step in ASIDE:
                found[step].append((passed[step][bisect.bisect(passed[step], at)] - at) / 1e6)
    return found


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--drained", type=int, default=0, help="tasks that are drained before")
    options = parser.parse_args()
    found = measure(options.tasks, options.drained)
    table = {}
    before = [0.0] * len(found[STEPS[0]])
    for step in STEPS + ASIDE:
        times = found[step]
        if step in ASIDE:
            before = [0.0] * len(times)
        took = [time - last for time, last in zip(times, before, strict=True)]
        table[step] = {
            "at_p50_ms": round(statistics.median(times), 3),
            "took_p50_ms": round(statistics.median(took), 3),
            "took_p99_ms": round(sorted(took)[int(len(took) * 0.99)], 3),
            "at_p99_ms": round(sorted(times)[int(len(times) * 0.99)], 3),
        }
        before = times
    if options.json:
        print(json.dumps(table))
        return
    print(f"{'':26}{'at p50':>9}{'took p50':>10}{'took p99':>10}{'at p99':>9}")
    for step, row in table.items():
        print(
            f"{step:26}{row['at_p50_ms']:9.3f}{row['took_p50_ms']:10.3f}"
            f"{row['took_p99_ms']:10.3f}{row['at_p99_ms']:9.3f}"
        )


if __name__ == "__main__":
    main()
