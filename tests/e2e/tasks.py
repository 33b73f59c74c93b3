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


@hf.task(queue="e2e", lease=1.5)
def ask_for_a_word(*, ctx: hf.Context) -> str:
    """Wait for a signal, without a worker."""
    word: str = ctx.wait("word")
    return word


@hf.task(queue="e2e", lease=1.5, preemption_retries=2)
def kill_the_worker(_: int) -> None:
    """End the process that runs this, whichever it is."""
    os.kill(os.getpid(), 9)


@hf.task(queue="e2e", lease=8.0, preemption_retries=1000)
def take_back(undo: hf.Undo) -> None:
    """Write down which step of a saga is undone, and whether its own words came along."""
    folder, name = undo.kwargs["folder"], undo.kwargs["name"]
    told = undo.result if undo.state == "SUCCEEDED" else (undo.error or "").partition("\n")[0]
    with Path(folder, "undone").open("a") as notes:
        notes.write(f"{name} {told}\n")


@hf.task(
    queue="e2e", lease=8.0, preemption_retries=1000, on_exhausted="fail", compensation=take_back
)
def take_step(*, folder: str, name: str, fails: bool) -> str:
    """Take one step of a saga, or fail."""
    time.sleep(0.02)
    if fails:
        raise hf.PermanentError(name)
    return f"{name} done"
