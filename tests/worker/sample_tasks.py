"""Functions for workers under test. They tell by files how far they have got."""

import asyncio
import ctypes
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

import holdfast as hf
from holdfast import fenced

PATIENCE_SECONDS = 60.0


def tell(path: str, text: str = "") -> None:
    """Leave a file, all at once."""
    partial = Path(f"{path}.partial")
    partial.write_text(text)
    partial.rename(path)


@hf.task(queue="q")
async def add(a: int, b: int = 1) -> int:
    """Compute on the worker's loop."""
    return a + b


@hf.task(queue="q")
def add_in_thread(a: int, b: int = 1) -> int:
    """Compute in a thread."""
    return a + b


@hf.task(queue="q", isolation="process")
def add_in_process(a: int, b: int = 1) -> list[int]:
    """Compute in a process of its own."""
    print(f"adding {a} and {b}")  # noqa: T201 - its output is what is tested
    return [a + b, os.getpid()]


def report(_: Any = None, *, ctx: hf.Context) -> list[Any]:
    """Tell who and where this is."""
    return [ctx.task_id, ctx.attempt, os.getpid(), hf.Context is type(ctx)]


def echo(value: Any) -> Any:
    """Return what was given."""
    return value


def give(kind: str) -> Any:
    """Return what cannot be kept, or can just."""
    many = "ä" * 600_000
    values = {
        "nan": float("nan"),
        "object": object(),
        "large": many,
        "half": "\ud800",
        "null": None,
    }
    return values[kind]


def fail(kind: str, text: str = "boom") -> None:
    """Raise an error of a kind."""
    kinds: dict[str, type[BaseException]] = {
        "value": ValueError,
        "permanent": hf.PermanentError,
        "invalid": hf.ValidationError,
        "exit": SystemExit,
        "odd": OddError,
    }
    raise kinds[kind](text)


class OddError(BaseException):
    """An error that is no Exception, and cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError


def wait_for_file(began: str, go: str) -> str:
    """Wait in a thread, in steps, until a file is there."""
    tell(began, str(os.getpid()))
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not Path(go).exists():
        assert time.monotonic() < ends_at
        time.sleep(0.005)
    return "gone on"


async def await_file(began: str, go: str) -> str:
    """Wait on the loop until a file is there."""
    tell(began, str(os.getpid()))
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not os.path.exists(go):  # noqa: ASYNC240 - it takes no time
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.005)
    return "gone on"


def wait_for_cancel(began: str, *, ctx: hf.Context) -> str:
    """Wait until asked to stop, and then succeed."""
    tell(began, str(os.getpid()))
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not ctx.cancelled:
        assert time.monotonic() < ends_at
        time.sleep(0.005)
    return "stopped by itself"


async def await_cancel(began: str, *, ctx: hf.Context) -> str:
    """Wait on the loop until asked to stop, and then succeed."""
    tell(began)
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not ctx.cancelled:
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.005)
    return "stopped by itself"


def ignore_cancel(began: str, *, ctx: hf.Context) -> None:
    """Wait without ever looking at the context."""
    tell(began)
    for _ in range(int(PATIENCE_SECONDS / 0.005)):
        time.sleep(0.005)


def sleep(began: str, seconds: float) -> None:
    """Sleep in one step: nothing in this process can interrupt it."""
    tell(began, str(os.getpid()))
    time.sleep(seconds)


async def block_the_loop(began: str, seconds: float) -> str:
    """Keep the worker's loop from doing anything else."""
    tell(began, str(os.getpid()))
    time.sleep(seconds)  # noqa: ASYNC251 - what is tested
    return "done"


def receive(began: str) -> str:
    """Wait in a system call for what never comes; once, not when it is tried again."""
    if Path(began).exists():
        return "not again"
    near, far = socket.socketpair()
    with near, far:
        tell(began, str(os.getpid()))
        near.recv(1)
    return "received"


def refuse_to_stop(began: str, go: str = "/no/such/file") -> None:
    """Go on until a file is there, whatever is raised here."""
    tell(began, str(os.getpid()))
    while True:
        with suppress(BaseException):
            while not os.path.exists(go):
                time.sleep(0.01)
            return


def hold_the_interpreter(began: str) -> None:
    """Sleep in C without letting any other thread run."""
    tell(began, str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)


def match_for_ever(began: str) -> None:
    """Look for a match, one by one among more ways than there is time for."""
    tell(began, str(os.getpid()))
    re.match(r"(a|a)+$", "a" * 60 + "b")


@hf.task(queue="q", isolation="process")
def ignore_sigterm(began: str) -> None:
    """Have no ear for a request to stop."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(began, str(os.getpid()))
    time.sleep(600)


def hog(began: str) -> None:
    """Let no other thread of this process run again."""
    tell(began, str(os.getpid()))
    sum(range(10**13))


async def turn_cancel_into_error(began: str) -> None:
    """Fail because of being cancelled, as libraries do."""
    tell(began)
    try:
        await asyncio.sleep(PATIENCE_SECONDS)
    except asyncio.CancelledError:
        raise ConnectionError("cancelled in the middle") from None


async def say_progress(began: str, go: str, message: str, *, ctx: hf.Context) -> None:
    """Say how far it is, and stay there."""
    ctx.progress(0.25, "early")
    ctx.progress(0.5, message)
    await await_file(began, go)


@hf.task(queue="q", isolation="process")
def say_progress_in_process(began: str, go: str, message: str, *, ctx: hf.Context) -> None:
    """Say how far it is more often than anybody wants to know, and stay there."""
    for step in range(1000):
        ctx.progress(step / 2000, "early")
    ctx.progress(0.5, message)
    wait_for_file(began, go)


async def remember(value: Any, *, ctx: hf.Context) -> Any:
    """Keep something for the next attempt, and give back what the last one kept."""
    before = await ctx.checkpoint.load.aio()
    await ctx.checkpoint.save.aio(value)
    if before is None:
        raise hf.TransientError("the first attempt")
    return before


async def put_off(*, ctx: hf.Context) -> int:
    """Go on later, once, at no cost."""
    if not ctx.attempt:
        raise hf.RetryAfter(0.01, "not yet", free=True)
    return ctx.attempt


def put_off_in_thread(*, ctx: hf.Context) -> int:
    """Go on later, once, at no cost; from a thread, or a process."""
    if not ctx.attempt:
        raise hf.RetryAfter(0.01, "not yet", free=True)
    return ctx.attempt


@hf.task(queue="q", isolation="process")
def put_off_in_process(*, ctx: hf.Context) -> int:
    """Go on later, once, at no cost; from a process of its own."""
    return put_off_in_thread(ctx=ctx)


def complete_in_transaction(url: str, began: str, go: str, *, ctx: hf.Context) -> str:
    """Write a row and succeed with one transaction, and go on until a file is there."""
    with psycopg.connect(url) as connection:
        connection.execute("insert into public.writes values (%s)", [ctx.attempt])
        fenced.complete(connection, ctx, "by SQL")
    wait_for_file(began, go)
    ctx.log("home again")
    return "by the worker"


def crash(number: int) -> None:
    """End the process that runs this by a signal."""
    os.kill(os.getpid(), number)


def leave(code: int) -> None:
    """End the process that runs this without a word."""
    sys.stdout.flush()
    os._exit(code)


def catch_sigterm(began: str) -> str:
    """Have a handler of its own for SIGTERM, in a process of its own."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    tell(began)
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not told:
        assert time.monotonic() < ends_at
        time.sleep(0.005)
    return "heard it"


def leave_a_thread(*, ctx: hf.Context) -> list[Any]:
    """Leave a thread behind, and words about progress that nobody may hear."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    ctx.progress(0.5, "nobody hears this")
    return [ctx.task_id, ctx.attempt]


def start_a_program(path: str) -> None:
    """Start a program that outlives the function, in a session of its own."""
    program = subprocess.Popen(["sleep", "600"], start_new_session=True)
    tell(path, str(program.pid))


def leave_a_file(path: str, text: str) -> None:
    """Leave a file where it should not be, and end without a word."""
    Path(path).write_text(text)
    os._exit(0)


@hf.task
async def tell_undo(undo: hf.Undo) -> list[Any]:
    """Say with which arguments what is undone was called."""
    return [undo.args, undo.kwargs, undo.truncated]


@hf.task(isolation="process")
def tell_undo_in_process(undo: hf.Undo) -> list[Any]:
    """Say the same, in a process of its own."""
    return [undo.args, undo.kwargs, undo.truncated]


def speak(name: str, count: int = 1, *, ctx: hf.Context) -> None:
    """Write in every way there is, in a thread."""
    _speak(name, count, ctx)


async def speak_async(name: str, count: int = 1, *, ctx: hf.Context) -> None:
    """Write in every way there is, in a coroutine and in a thread that it starts."""
    _speak(name, count, ctx)
    await asyncio.to_thread(print, f"{name} from a thread")


@hf.task(queue="q", isolation="process")
def speak_in_process(name: str, *, ctx: hf.Context) -> None:
    """Write in every way there is, in a process."""
    _speak(name, 1, ctx)


def print_and_wait(began: str, go: str, done: str) -> None:
    """Write before and after a file is there."""
    print("before")  # noqa: T201 - its output is what is tested
    wait_for_file(began, go)
    print("after")  # noqa: T201 - its output is what is tested
    tell(done)


def _speak(name: str, count: int, ctx: hf.Context) -> None:
    for number in range(count):
        print(f"{name} {number}")  # noqa: T201 - its output is what is tested
    sys.stderr.write(f"{name} to stderr\n")
    sys.stdout.buffer.write(b"bytes \xff\n")
    sys.stdout.buffer.flush()
    logging.getLogger("shop").warning("%s is low", name)
    ctx.log(f"{name} is loaded", rows=3)
    ctx.log.error("%s failed", name)
