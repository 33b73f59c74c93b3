"""The tasks that the end-to-end tests run."""

import os
import time
from pathlib import Path

import holdfast as hf


@hf.task(queue="e2e", retries=1, preemption_retries=1000, lease=1.5)
async def triple(n: int) -> int:
    """Compute something on the worker's loop."""
    return n * 3


@hf.task(queue="e2e", retries=1, preemption_retries=1000, lease=1.5)
def slowly_triple(n: int) -> int:
    """Compute something that takes its time, in a thread."""
    time.sleep(0.01 + n % 7 / 100)
    return n * 3


@hf.task(queue="e2e", lease=2.0)
def note_and_wait(folder: str, *, ctx: hf.Context) -> int:
    """Write down that this attempt has begun; the first one then waits for its worker's end."""
    Path(folder, f"attempt-{ctx.attempt}").write_text(str(os.getpid()))
    while ctx.attempt == 0 and not ctx.cancelled:
        time.sleep(0.05)
    return ctx.attempt


@hf.task(queue="e2e", lease=1.5, preemption_retries=2)
def kill_the_worker(_: int) -> None:
    """End the process that runs this, whichever it is."""
    os.kill(os.getpid(), 9)
