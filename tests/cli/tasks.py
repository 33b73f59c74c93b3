"""Tasks for the worker that the commands are tried with."""

import socket
import time
from pathlib import Path

import holdfast as hf

HOSTILE = "\x1b[2Jgone\x07\u202eevil\nsecond line"


@hf.task
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
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
