"""The functions that run while things break; each keeps the record, and has a result to check.

The version before this one can run them, too; what it had not yet is in `later_tasks`.
"""

import asyncio
import os
from typing import TypedDict

import holdfast as hf
from chaos.workload.record import WORKER_VARIABLE, executing, live, mark

QUEUE = "chaos"
LEASE = 3.0
SOON = hf.Backoff(base=0.05, ceiling=0.5)
FACTOR = 3
PLACED_LEASE = 10.0
SMALL_CPU = 0.5
SMALL = hf.Resources(cpu=SMALL_CPU, memory="400MB", disk="10MB")
ONE_DEVICE = hf.Resources(cpu=0.1, memory="400MB", disk="10MB", gpu=1)
DATASET = "chaos-parts"
# The key of what undoes a step: the saga and the step's number follow.
UNDO = "undo-"
# The keys of the room that a worker has for small tasks, and of each of its devices.
ROOM, DEVICE = "room-", "device-"


class Often(TypedDict, total=False):
    """Options that let a task outlive a night of faults."""

    queue: str | None
    retries: int
    preemption_retries: int
    lease: float
    grace: float
    backoff: hf.Backoff


OFTEN: Often = {
    "queue": QUEUE, "retries": 1000, "preemption_retries": 1000, "lease": LEASE, "grace": 1.0,
    "backoff": SOON,
}  # fmt: skip


@hf.task(**OFTEN)
def quick(n: int, *, ctx: hf.Context) -> int:
    """Compute something at once."""
    with executing(ctx):
        return n * FACTOR


@hf.task(**OFTEN)
def slow(n: int, *, seconds: float = 1.0, ctx: hf.Context) -> int:
    """Take some time."""
    with executing(ctx):
        live(ctx, seconds)
        return n * FACTOR


@hf.task(**OFTEN)
async def awaited(n: int, *, ctx: hf.Context) -> int:
    """Do it as a coroutine."""
    await asyncio.to_thread(mark, ctx, "start")
    await asyncio.sleep(0.2)
    await asyncio.to_thread(mark, ctx, "end")
    return n * FACTOR


@hf.task(**OFTEN, isolation="process")
def apart(n: int, *, ctx: hf.Context) -> int:
    """Do it in a process of its own."""
    with executing(ctx):
        live(ctx, 0.5)
        return n * FACTOR


@hf.task(**OFTEN)
def flaky(n: int, *, ctx: hf.Context) -> int:
    """Fail once, at the same time as all others like it: a storm of retries."""
    with executing(ctx):
        if ctx.attempt == 0:
            raise hf.TransientError("the first attempt always fails")
        return n * FACTOR


@hf.task(**OFTEN)
def added(parts: list[int], *, ctx: hf.Context) -> int:
    """Add up what others have computed."""
    with executing(ctx):
        return sum(parts)


@hf.task(**OFTEN)
def undone(undo: hf.Undo, *, ctx: hf.Context) -> int:
    """Undo a step of a saga."""
    with executing(ctx, f"{UNDO}{undo.kwargs['saga']}:{undo.kwargs['n']}"):
        return int(undo.kwargs["n"])


@hf.task(**OFTEN, on_exhausted="fail", compensation=undone)
def step(*, saga: str, n: int, fails: bool = False, ctx: hf.Context) -> int:
    """Take a step of a saga; the last one fails."""
    with executing(ctx):
        if fails:
            raise hf.PermanentError(f"step {n} of {saga}")
        return n * FACTOR


@hf.task(**OFTEN, outputs=[hf.Output(DATASET)])
def stored(n: int, *, part: str, ctx: hf.Context) -> int:
    """Commit a part of a dataset with the success."""
    with executing(ctx):
        ctx.output(part, f"s3://chaos/{part}", size_bytes=n, metadata={"task": ctx.task_id})
        return n * FACTOR


# Placed work: each in a process under a shim, on one of the two devices of a worker.
PLACED: Often = {**OFTEN, "queue": None, "lease": PLACED_LEASE}


@hf.task(**PLACED, resources=SMALL)
def placed(n: int, *, seconds: float = 0.2, ctx: hf.Context) -> int:
    """Compute something under a shim."""
    key = f"{ROOM}{os.environ[WORKER_VARIABLE]}"
    with executing(ctx, key):
        live(ctx, seconds, key)
        return n * FACTOR


@hf.task(**PLACED, resources=ONE_DEVICE)
def on_device(n: int, *, ctx: hf.Context) -> int:
    """Hold a device."""
    key = f"{DEVICE}{os.environ[WORKER_VARIABLE]}-{os.environ['HOLDFAST_DEVICES']}"
    with executing(ctx, key):
        live(ctx, 0.5, key)
        return n * FACTOR


@hf.task(**PLACED, resources=SMALL, replicas=3, coscheduling=hf.Coscheduling())
def gang(n: int, *, ctx: hf.Context) -> int:
    """Run as one of three, together or not at all."""
    key = f"{ROOM}{os.environ[WORKER_VARIABLE]}"
    with executing(ctx, key):
        live(ctx, 0.5, key)
        return n * FACTOR
