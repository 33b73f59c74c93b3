"""What runs while versions change; each answer says which version of Holdfast ran it."""

import os
import time
from pathlib import Path

import holdfast as hf

QUEUE = "upgrade"
WAITS = "upgrade/waits"
FAILING = 10  # the first attempt of every tenth fails
SMALL = hf.Resources(cpu=0.1, memory="100MB", disk="10MB")
SOON = hf.Backoff(base=0.05)


def _run(n: int, seconds: float, ctx: hf.Context) -> tuple[int, str]:
    time.sleep(seconds)
    if n % FAILING == 0 and ctx.attempt == 0:
        raise hf.TransientError("once more")
    return n * 3, str(Path(hf.__file__).parents[1])


def _run_until_cancelled(folder: str, ctx: hf.Context) -> None:
    Path(folder, ctx.job_id).touch()
    while not ctx.cancelled:
        time.sleep(0.02)


@hf.task(queue=QUEUE, retries=1, preemption_retries=1000, lease=10.0, backoff=SOON)
def claimed(n: int, *, seconds: float = 0.0, ctx: hf.Context) -> tuple[int, str]:
    """Compute something in a thread of the worker."""
    return _run(n, seconds, ctx)


@hf.task(queue=None, resources=SMALL, retries=1, preemption_retries=1000, lease=10.0, backoff=SOON)
def placed(n: int, *, seconds: float = 0.0, ctx: hf.Context) -> tuple[int, str]:
    """Compute something in a process under a shim."""
    return _run(n, seconds, ctx)


@hf.task(queue=QUEUE, lease=10.0)
def claimed_endless(folder: str, *, ctx: hf.Context) -> None:
    """Run until it is cancelled."""
    _run_until_cancelled(folder, ctx)


@hf.task(queue=WAITS, lease=10.0)
def waiting_for_a_word(*, ctx: hf.Context) -> str:
    """Wait for a signal, which the version before did not know."""
    word: str = ctx.wait("word")
    return word


@hf.task(queue=None, resources=SMALL, lease=10.0)
def placed_endless(folder: str, *, ctx: hf.Context) -> None:
    """Run until it is cancelled, under a shim."""
    _run_until_cancelled(folder, ctx)


@hf.task(queue=None, resources=SMALL, lease=30.0)
def placed_until(folder: str, *, ctx: hf.Context) -> int:
    """Run until a file says so; returns the number of its process."""
    Path(folder, ctx.job_id).touch()
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    return os.getpid()
