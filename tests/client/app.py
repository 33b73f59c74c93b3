"""Functions of a user, as a worker would import them."""

import asyncio
import builtins
import os
import sys
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import holdfast as hf


@dataclass
class Order:
    """What a shop sends."""

    id: UUID
    day: date
    price: Decimal
    picture: bytes = b""


@hf.task(queue="q", retries=2)
async def greet(name: str, *, greeting: str = "hello", ctx: hf.Context) -> str:
    """Greet somebody."""
    await asyncio.sleep(0)
    return f"{greeting} {name} by attempt {ctx.attempt}"


@hf.task(queue="q")
def double(number: int) -> int:
    """Double a number."""
    return number * 2


@hf.task(queue="q")
def echo(value, *more, **named):  # type: ignore[no-untyped-def]
    """Give back what it was given, whatever that was."""
    return [value, more, named]


@hf.task(queue="q", isolation="process")
def describe(
    order: Order,
    /,
    tags: set[str],
    counts: dict[int, tuple[int, int]],
    at: datetime,
    *,
    where: Path,
    note: str | None = None,
) -> tuple[Order, list[str]]:
    """Tell of which types its arguments are."""
    given: list[Any] = [order, tags, counts, counts[1], at, where]
    return order, [type(each).__name__ for each in given]


@hf.task(queue="q")
async def next_day(day: date) -> date:
    """Give the day after one."""
    return date.fromordinal(day.toordinal() + 1)


@hf.task(queue="q")
def count_days(days: list[date]) -> dict[date, int]:
    """Count each day."""
    return {day: days.count(day) for day in days}


@hf.task(queue="q")
def promise_a_number() -> int:
    """Return something else than its annotation says."""
    return "seven"  # type: ignore[return-value]


@hf.task(queue="q", pickled=True)
def second(things: tuple[object, object]) -> object:
    """Give the second of two things that are no JSON."""
    return things[1]


@hf.task(queue="q", isolation="process")
def say_pid(text: str) -> int:
    """Print something, and tell which process this is."""
    sys.stdout.write(text)
    return os.getpid()


@hf.task(queue="q", retries=5, backoff=hf.Backoff(base=0.001))
def count_up(upto: int, *, ctx: hf.Context) -> list[int]:
    """Fail until the last attempt; each takes up what the one before has left."""
    seen: list[int] = ctx.checkpoint.load() or []
    seen.append(ctx.attempt)
    ctx.checkpoint.save(seen)
    ctx.progress(len(seen) / upto, f"at {len(seen)}")
    if len(seen) < upto:
        raise hf.TransientError("not yet")
    return seen


@hf.task(queue="q")
def sum_by_children(numbers: list[int]) -> int:
    """Double numbers by a child job, and add them up."""
    return sum(double.map(numbers).results(timeout=30))


@hf.task(queue="q")
async def double_by_a_child(number: int) -> int:
    """Double a number by a child job that is awaited."""
    job = await double.submit.aio(number)
    return await job.result.aio(timeout=30)


@hf.task(queue="q")
async def block_by_a_child(number: int) -> int:
    """Submit a child job, and hold up the event loop meanwhile."""
    return double.with_options(queue="other").submit(number).num_tasks


@hf.task(queue="q")
def fail(name: str) -> None:
    """Raise an error of a builtin class."""
    raise getattr(builtins, name)("as asked")


@hf.task(queue="q")
async def wait_to_be_stopped(*, ctx: hf.Context) -> str:
    """Go on until somebody asks for an end."""
    while not ctx.cancelled:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    return "stopped"


@hf.task(queue="q")
async def hang() -> None:
    """Go on for ever."""
    await asyncio.Event().wait()
