"""What limits and shares cost, and how exact they are, beside the same ledger without any.

All on one embedded Postgres with fsync on. Drains go through servers and workers as users run them,
on two databases in interleaved rounds; the rest through a server's runtime in this process.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from benchmarks.audited import count_findings
from benchmarks.ledger import fence_of, settle
from benchmarks.peers.rounds import Drained
from benchmarks.queue import Contender
from benchmarks.queue_tasks import keyed
from holdfast.cli.garbage import SERVER_ALLOCATIONS, collect_garbage_rarely
from holdfast.embedded import EmbeddedPostgres
from holdfast.model.limits.shares import ShareRule
from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completion
from holdfast.operations.sharing.rules import set_share_rule
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.usage_limits.put import put_limit
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.services.waking.doorbell import Bell
from holdfast.store.migrate import migrate

CALLERS = 64
KEYS = 1000
OWNERS = 50
BY_CUSTOMER = {"input": "customer"}
LOOK_AGAIN_SECONDS = 1.0
# Longer than any run: a drain that does not end is a fault to be told, not to be waited for.
DRAIN_SECONDS_MAX = 300.0


class Side:
    """One server's runtime, and those who work for it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def submit(self, queue: str, inputs: Sequence[Any], **fields: Any) -> int:
        """Submit a job with a task per input; returns its id."""
        spec = parse_spec({"entrypoint": {"function": "app:send"}, "queue": queue} | fields)
        texts = tuple(json.dumps(each) for each in inputs)
        return (await submit_one(self.runtime.ledger, Submission(spec, texts))).job_id

    async def drain(self, queue: str, tasks: int, per_claim: int = 10) -> float:
        """Claim and complete so many tasks; returns how many a second."""
        left = tasks

        def note(claims: list[Claim]) -> bool:
            nonlocal left
            left -= len(claims)
            return left > 0

        began = time.perf_counter()
        async with asyncio.timeout(DRAIN_SECONDS_MAX):
            await self.work(queue, note, per_claim)
        return tasks / (time.perf_counter() - began)

    async def work(
        self, queue: str, note: Callable[[list[Claim]], bool], per_claim: int = 10
    ) -> None:
        """Claim as workers do, until `note` has seen enough."""
        is_enough = asyncio.Event()

        async def run(number: int) -> None:
            request = ClaimRequest(f"w{number}", (queue,), per_claim, start=True)
            ended: list[Completion] = []
            with self.runtime.doorbells.listen([Bell("queue", queue)], per_claim) as listener:
                while not is_enough.is_set():
                    claims = await self._turn(ended, request)
                    ended = [Completion(fence_of(claim), "succeeded") for claim in claims]
                    if claims and not note(claims):
                        is_enough.set()
                    if not claims:
                        await listener.wait(LOOK_AGAIN_SECONDS)
                for answer in await self.runtime.writers.complete(ended) if ended else ():
                    if isinstance(answer, Exception):
                        raise answer

        async def wake() -> None:
            await is_enough.wait()
            self.runtime.doorbells.ring(Bell("queue", queue), worth=1_000_000)

        await asyncio.gather(wake(), *(run(number) for number in range(CALLERS)))

    async def _turn(self, ended: list[Completion], request: ClaimRequest) -> list[Claim]:
        if not ended:
            return await self.runtime.writers.claim(request)
        answers, claims = await self.runtime.writers.complete_and_claim(ended, request)
        for answer in (*answers, claims):
            if isinstance(answer, Exception):
                raise answer
        assert isinstance(claims, list)
        return claims


@asynccontextmanager
async def open_side(postgres: EmbeddedPostgres, name: str) -> AsyncIterator[Side]:
    """Make a database, and a server's runtime on it."""
    postgres.create_database(name)
    url = postgres.url(name)
    await migrate(url)
    async with open_runtime(Options(url)) as runtime:
        yield Side(runtime)


async def set_limit(side: Side, name: str, **fields: Any) -> None:
    """Set a limit for all that starts from now on."""
    limit = UsageLimit(**({"kind": "concurrency"} | fields))
    await put_limit(side.runtime.ledger, name, limit, actor="bench")


def measure_drains(
    postgres: EmbeddedPostgres, folder: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Drain a limited queue of a thousand keys, each limited too, beside one without limits.

    Through servers and workers as users run them, one of each on a database of its own.
    """
    sides = {}
    for name in ("drained_plain", "drained_limited"):
        postgres.create_database(name)
        (folder / name).mkdir()
        sides[name] = Contender(
            postgres.pid, postgres.url(name), options.concurrency, folder / name
        )
    try:
        limits = sides["drained_limited"].client.limits
        limits.put("queue", "queue", only_for="bench", slots=100_000)
        limits.put("keys", "key", in_queue="bench", slots=100)
        drained: dict[str, list[Drained]] = {name: [] for name in sides}
        chance = random.Random(1)
        for number in range(options.rounds + 1):
            inputs = [{"customer": f"c{chance.randrange(KEYS)}"} for _ in range(options.tasks)]
            for name, side in sides.items():
                found = side.drain(options.tasks, keyed, inputs)
                if number:  # the first one warms up
                    drained[name].append(found)
    finally:
        for side in sides.values():
            side.stop()
    plain, limited = drained["drained_plain"], drained["drained_limited"]
    ratios = [one.per_s / two.per_s for one, two in zip(limited, plain, strict=True)]
    return {
        "drain_plain_per_s": statistics.median(each.per_s for each in plain),
        "drain_limited_per_s": statistics.median(each.per_s for each in limited),
        "drain_ratio": statistics.median(ratios),
        "drain_plain_postgres_us": statistics.median(each.parts["postgres"] for each in plain),
        "drain_limited_postgres_us": statistics.median(each.parts["postgres"] for each in limited),
    }


async def measure_gated(limited: Side, postgres: EmbeddedPostgres, gated: int) -> dict[str, Any]:
    """Claim tasks of other keys, one by one, before and after a million of one key are gated."""
    await set_limit(limited, "one", scope="key", in_queue="gated", most=1)
    alone = await _claim_singly(limited, 2000)
    await limited.submit("gated", [{"customer": "busy"}], concurrency_key=BY_CUSTOMER)
    request = ClaimRequest("holder", ("gated",), 1, start=True)
    fences = [fence_of(claim) for claim in await limited.runtime.writers.claim(request)]
    async with _kept(limited, fences):
        left = gated
        while left > 0:
            crowd = [{"customer": "busy"}] * min(left, 50_000)
            await limited.submit("gated", crowd, concurrency_key=BY_CUSTOMER)
            left -= len(crowd)
        await _wait_gated(postgres.url("limited"), gated)
        # Those that came before the key had a line are sent behind it by the claims that meet them.
        while await limited.runtime.writers.claim(request):
            raise AssertionError("a key that is held was claimed")
        await settle(postgres.url("limited"))
        behind = await _claim_singly(limited, 2000)
    await limited.runtime.writers.complete([Completion(fence, "succeeded") for fence in fences])
    return {
        "claim_alone_p99_ms": _p99(alone),
        "claim_gated_p99_ms": _p99(behind),
        "claim_alone_p50_ms": statistics.median(alone),
        "claim_gated_p50_ms": statistics.median(behind),
        "gated_p99_ratio": _p99(behind) / _p99(alone),
    }


@asynccontextmanager
async def _kept(side: Side, fences: Sequence[Fence]) -> AsyncIterator[None]:
    """Keep leases for the time of a block: without, the key would be free in the midst of it."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(5.0)
            for answer in await side.runtime.writers.renew(fences):
                if isinstance(answer, Exception):
                    raise answer

    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(renew())
        yield
        renewing.cancel()


async def _wait_gated(url: str, count: int) -> None:
    """Wait until a crowd, which is fed in stretches, stands behind its limit but for its head."""
    connection = await asyncpg.connect(url)
    async with asyncio.timeout(DRAIN_SECONDS_MAX):
        query = "select count(*) from holdfast.gated"
        while await connection.fetchval(query) < count - 100:  # noqa: ASYNC110 - chores do it
            await asyncio.sleep(1.0)
    await connection.close()


async def _claim_singly(side: Side, count: int) -> list[float]:
    inputs = [{"customer": f"other{number}"} for number in range(count)]
    await side.submit("gated", inputs, concurrency_key=BY_CUSTOMER)
    request = ClaimRequest("single", ("gated",), 1, start=True)
    took = []
    for _ in range(count):
        began = time.perf_counter()
        [claim] = await side.runtime.writers.claim(request)
        took.append((time.perf_counter() - began) * 1000)
        assert "other" in str(claim.input), "a key that is held was claimed"
        await side.runtime.writers.complete([Completion(fence_of(claim), "succeeded")])
    return took


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


async def measure_shares(limited: Side) -> dict[str, Any]:
    """Drain a queue that owners share, whose numbers of tasks are Zipf's, while all have some."""
    await set_share_rule(limited.runtime.ledger, "shared", ShareRule("owner"), actor="bench")
    fewest = 100
    ranks: dict[int, int] = {}
    for rank in range(OWNERS):
        tasks = max(int(fewest * OWNERS / (rank + 1)), fewest)
        job_id = await limited.submit("shared", [{}] * tasks, owner=f"owner{rank}")
        ranks[job_id] = rank
    served: Counter[int] = Counter()
    wanted = OWNERS * fewest // 2

    def note(claims: list[Claim]) -> bool:
        served.update(ranks[claim.task_id.job_id] for claim in claims)
        return served.total() < wanted

    async with asyncio.timeout(DRAIN_SECONDS_MAX):
        await limited.work("shared", note)
    counts = [served[rank] for rank in range(OWNERS)]
    jain = sum(counts) ** 2 / (OWNERS * sum(count * count for count in counts))
    return {"jain_zipf_owners": jain}


async def measure_rates(limited: Side, rates: Sequence[int], seconds: float) -> dict[str, Any]:
    """Start tasks as fast as a token bucket lets them; by how much it differs from its rate."""
    found = {}
    for rate in rates:
        queue = f"rate{rate}"
        # More than one: what comes while a bucket is full is lost.
        burst = max(rate / 20, 2)
        await set_limit(
            limited, queue, scope="queue", only_for=queue, kind="bucket", most=rate, period=1.0,
            burst=burst,
        )  # fmt: skip
        left = int(rate * (seconds + 5) + burst)
        while left > 0:
            await limited.submit(queue, [{}] * min(left, 50_000))
            left -= 50_000
        started = 0
        first_at = last_at = 0.0

        def note(claims: list[Claim]) -> bool:
            nonlocal started, first_at, last_at
            last_at = time.perf_counter()
            if not started:
                first_at = last_at
            started += len(claims)
            return last_at - first_at < seconds

        async with asyncio.timeout(DRAIN_SECONDS_MAX):
            await limited.work(queue, note, per_claim=max(rate // 100, 1))
        # What the bucket held at the beginning comes on top.
        found[f"rate_{rate}_ratio"] = (started - burst) / ((last_at - first_at) * rate)
    return found


async def measure(options: argparse.Namespace, postgres: EmbeddedPostgres) -> dict[str, Any]:
    """Run everything; returns the figures."""
    async with open_side(postgres, "limited") as limited:
        figures = await measure_shares(limited)
        figures |= await measure_rates(
            limited, [int(each) for each in options.rates.split(",")], options.seconds
        )
        figures |= await measure_gated(limited, postgres, options.gated)
    return figures


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=500, help="of each worker")
    parser.add_argument("--gated", type=int, default=1_000_000)
    parser.add_argument("--rates", default="10,1000,10000")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each rate")
    options = parser.parse_args()
    collect_garbage_rarely(SERVER_ALLOCATIONS)
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder) / "postgres") as postgres,
    ):
        figures = measure_drains(postgres, Path(folder), options)
        figures |= uvloop.run(measure(options, postgres))
        figures["audit_findings"] = count_findings(postgres.url("limited"))
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24}{value:12,.3f}")


if __name__ == "__main__":
    main()
