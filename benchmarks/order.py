"""What waiting for other jobs costs: many parents into one job, one parent into many, and the step.

Everything is measured beside plain jobs in the same run, on one embedded Postgres with fsync on:
releases beside submissions, because both put jobs in line; the way from the end of a job to the
claim of the next beside the way from a submission to its claim.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.ledger import fence_of
from holdfast.cli.garbage import SERVER_ALLOCATIONS, collect_garbage_rarely
from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.ending.dependents import release_dependents
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.services.waking.doorbell import Bell
from holdfast.store.database import Database
from holdfast.store.migrate import migrate

BATCH = 1000
WAIT_SECONDS_MAX = 30.0


def a_job(queue: str, parents: Sequence[int] = ()) -> Submission:
    """Describe a job of one task."""
    depends_on = [str(parent) for parent in parents]
    entrypoint = {"function": "app:work"}
    fields = {"entrypoint": entrypoint, "queue": queue, "depends_on": depends_on}
    return Submission(parse_spec(fields))


async def timed(action: Callable[[], Awaitable[Any]]) -> float:
    """Say how many seconds something takes."""
    started = time.perf_counter()
    await action()
    return time.perf_counter() - started


async def submit_many(ledger: Ledger, submissions: Sequence[Submission]) -> list[int]:
    """Submit jobs, a thousand in a transaction; returns their ids."""
    job_ids: list[int] = []
    for start in range(0, len(submissions), BATCH):
        for answer in await submit(ledger, submissions[start : start + BATCH]):
            if not isinstance(answer, Submitted):
                raise answer
            job_ids.append(answer.job_id)
    return job_ids


async def start_all(ledger: Ledger, queue: str) -> list[Fence]:
    """Claim and start everything in a queue."""
    fences: list[Fence] = []
    while True:
        [claims] = await claim(ledger, [ClaimRequest("bench", (queue,), BATCH)])
        if isinstance(claims, Exception):
            raise claims
        if not claims:
            return fences
        found = [fence_of(claimed) for claimed in claims]
        await report(ledger, [Report(fence, TaskState.RUNNING) for fence in found])
        fences += found


async def end_all(ledger: Ledger, fences: Sequence[Fence]) -> None:
    """End attempts well, a thousand in a transaction."""
    for start in range(0, len(fences), BATCH):
        part = fences[start : start + BATCH]
        await complete(ledger, [Completion(fence, "succeeded") for fence in part])


async def release_all(ledger: Ledger) -> None:
    """Release whatever can be released."""
    while await release_dependents(ledger):
        pass


async def measure_fans(ledger: Ledger, count: int, turn: int) -> dict[str, float]:
    """Let many jobs release one, and one release many; beside as many that wait for nothing."""
    plain = f"plain-{turn}"
    submitting = await timed(lambda: submit_many(ledger, [a_job(plain)] * count))
    fences = await start_all(ledger, plain)
    parents = sorted(fence.task_id.job_id for fence in fences)

    wide = f"wide-{turn}"
    binding = await timed(lambda: submit_many(ledger, [a_job(wide, parents)]))
    ending = await timed(lambda: end_all(ledger, fences))
    fan_in = await timed(lambda: release_all(ledger))
    [last] = await start_all(ledger, wide)

    dependents = [a_job(f"many-{turn}", [last.task_id.job_id])] * count
    waiting = await timed(lambda: submit_many(ledger, dependents))
    await end_all(ledger, [last])
    fan_out = await timed(lambda: release_all(ledger))
    released = await start_all(ledger, f"many-{turn}")
    assert len(released) == count, f"{len(released)} of {count} have been released"
    await end_all(ledger, released)
    await follow_up_all(ledger)
    return {
        "submit_per_s": count / submitting,
        "fan_in_submit_ms": binding * 1000,
        "fan_in_ends_per_s": count / ending,
        "fan_in_release_ms": fan_in * 1000,
        "fan_in_per_s": count / fan_in,
        "fan_in_ratio": submitting / fan_in,
        "fan_out_submit_per_s": count / waiting,
        "fan_out_per_s": count / fan_out,
        "fan_out_ratio": submitting / fan_out,
    }


async def next_claim(runtime: Runtime, queue: str) -> Claim:
    """Claim the next task of a queue, waiting for it as a worker's request does."""
    request = ClaimRequest("bench", (queue,), 1)
    with runtime.doorbells.listen([Bell("queue", queue)], 1) as listener:
        claims = await runtime.writers.claim(request)
        while not claims:
            if not await listener.wait(WAIT_SECONDS_MAX):
                raise TimeoutError(f"nothing came into {queue}")
            claims = await runtime.writers.claim(request)
    return claims[0]


async def measure_steps(runtime: Runtime, steps: int) -> dict[str, float]:
    """Go from job to job, those that wait for the one before and those that wait for nothing."""
    plain: list[float] = []
    waited: list[float] = []
    for _ in range(steps):
        began = time.perf_counter()
        first = await runtime.writers.submit(a_job("step"))
        running = await next_claim(runtime, "step")
        plain.append((time.perf_counter() - began) * 1000)

        await runtime.writers.submit(a_job("step", [first.job_id]))
        await runtime.writers.report([Report(fence_of(running), TaskState.RUNNING)])
        began = time.perf_counter()
        await runtime.writers.complete([Completion(fence_of(running), "succeeded")])
        following = await next_claim(runtime, "step")
        waited.append((time.perf_counter() - began) * 1000)
        await runtime.writers.report([Report(fence_of(following), TaskState.RUNNING)])
        await runtime.writers.complete([Completion(fence_of(following), "succeeded")])
    step, claimed = statistics.median(waited), statistics.median(plain)
    return {"step_p50_ms": step, "claim_p50_ms": claimed, "step_ratio": step / claimed}


async def measure(options: argparse.Namespace, postgres: EmbeddedPostgres) -> dict[str, float]:
    """Run everything; returns the medians of the rounds."""
    postgres.create_database("bench")
    url = postgres.url("bench")
    await migrate(url)
    async with open_runtime(Options(url)) as runtime:
        figures = await measure_steps(runtime, options.steps)
    async with Database(url) as database:
        ledger = Ledger(database)
        await measure_fans(ledger, 200, 0)
        rounds = [await measure_fans(ledger, options.jobs, n + 1) for n in range(options.rounds)]
    return figures | {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}


def main() -> None:
    """Read the options, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    collect_garbage_rarely(SERVER_ALLOCATIONS)  # as a server does
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "cluster") as postgres,
    ):
        figures = uvloop.run(measure(options, postgres))
    rounded = {name: round(value, 3 if "ratio" in name else 1) for name, value in figures.items()}
    if options.json:
        print(json.dumps(rounded))
    else:
        for name, value in rounded.items():
            print(f"{name:28} {value:>12,}")


if __name__ == "__main__":
    main()
