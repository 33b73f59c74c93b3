"""Tasks for the worker that the commands are tried with."""

import ctypes
import os
import socket
import time
from pathlib import Path
from typing import Any

import holdfast as hf

HOSTILE = "\x1b[2Jgone\x07\u202eevil\nsecond line"


@hf.task
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@hf.task
def join(a: list[int], b: list[int]) -> list[int]:
    """Put two lists together."""
    return a + b


@hf.task
def speak(name: str, *, ctx: hf.Context) -> None:
    """Write to its log."""
    print("hello", name)  # noqa: T201 - its output is what is tested
    ctx.log("said", rows=3)


@hf.task
def fail(message: str) -> None:
    """Fail for good."""
    raise hf.PermanentError(message)


@hf.task
def wait_for_cancel(ctx: hf.Context) -> None:
    """Run until somebody cancels it."""
    ctx.progress(0.5, "half way")
    while not ctx.cancelled:
        time.sleep(0.02)
    raise hf.TransientError("asked to stop, and stopped")


@hf.task(lease=2)
def block_once(marker: str) -> None:
    """Block where nothing can stop it, unless it has done so before."""
    if not Path(marker).exists():
        Path(marker).touch()
        ours, _theirs = socket.socketpair()
        ours.recv(1)


@hf.task
def crash(folder: str, neighbours: int) -> None:
    """End its process, without a word, once its neighbours run beside it."""
    while len(list(Path(folder).glob("began-*"))) < neighbours:
        time.sleep(0.02)
    os._exit(3)


@hf.task
def wait_beside(folder: str, rank: int) -> int:
    """Run until somebody lets it go; returns its process."""
    (Path(folder) / f"began-{rank}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.02)
    return os.getpid()


@hf.task(timeout=1)
def hold_interpreter() -> None:
    """Hold the interpreter's lock within C, so that nothing else in its process runs."""
    ctypes.PyDLL(None).sleep(600)


@hf.task(queue="nobody", retries=3, owner="team")
def elsewhere(n: int) -> int:
    """Be run where no worker of these tests is."""
    return n


@hf.task
async def wait_for_approval(ctx: hf.Context) -> Any:
    """Wait until somebody has approved."""
    return await ctx.wait.aio("approval")
