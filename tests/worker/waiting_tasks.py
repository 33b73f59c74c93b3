"""Functions that wait for signals, and such as are called once for many tasks."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import holdfast as hf


@hf.task
async def ask_for_approval(began: str, *, ctx: hf.Context) -> list[Any]:
    """Wait for two signals; every attempt leaves a line."""
    with open(began, "a", encoding="utf-8") as file:  # noqa: ASYNC230 - a line
        file.write(f"{ctx.attempt}\n")
    first = await ctx.wait.aio("approval")
    second = await ctx.wait.aio("approval", timeout=300)
    return [ctx.attempt, first, second]


@hf.task
def ask_in_thread(began: str, *, ctx: hf.Context) -> list[Any]:
    """Wait for two signals, and hold on to everything that can be held on to."""
    with open(began, "a", encoding="utf-8") as file:
        file.write(f"{ctx.attempt}\n")
    try:
        first = ctx.wait("approval")
    except Exception as error:  # noqa: BLE001 - as user code does
        return [str(error)]
    return [ctx.attempt, first, ctx.wait("approval")]


@hf.task(isolation="process")
def ask_in_process(began: str, *, ctx: hf.Context) -> list[Any]:
    """Wait for two signals in a process."""
    with open(began, "a", encoding="utf-8") as file:
        file.write(f"{ctx.attempt}\n")
    return [ctx.attempt, ctx.wait("approval"), ctx.wait("approval")]


@hf.task
async def ask_side_by_side(*, ctx: hf.Context) -> list[Any]:
    """Wait for two signals at once."""
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ctx.wait.aio(name)) for name in ("yes", "no")]
    return [task.result() for task in asked]


@hf.task
async def ask_in_vain(*, ctx: hf.Context) -> Any:
    """Wait for what never comes."""
    answer = await ctx.wait.aio("never", timeout=0.1, default="nobody")
    if answer == "nobody":
        await ctx.wait.aio("never", timeout=0.1)


def _note_batch(folder: str, items: list[dict[str, Any]]) -> None:
    """Leave a line for each call, with the numbers that it was given."""
    with (Path(folder) / "calls").open("a", encoding="utf-8") as file:
        file.write(json.dumps([item["n"] for item in items]) + "\n")


@hf.task(batch=4, within=0.2)
def double_all(items: list[dict[str, Any]]) -> list[Any]:
    """Double numbers, many at once; what is odd about one is its own affair."""
    _note_batch(items[0]["folder"], items)
    print("doubling")  # noqa: T201 - its output is what is tested
    return [ValueError("thirteen") if item["n"] == 13 else 2 * item["n"] for item in items]


@hf.task(batch=4, within=0.2)
async def double_all_async(items: list[dict[str, Any]]) -> list[int]:
    """Double numbers on the loop."""
    _note_batch(items[0]["folder"], items)
    await asyncio.sleep(0)
    return [2 * item["n"] for item in items]


@hf.task(batch=2, within=30)
def fail_all(items: list[dict[str, Any]]) -> list[int]:
    """Fail, or return too little."""
    _note_batch(items[0]["folder"], items)
    if min(item["n"] for item in items) == 0:
        raise ValueError("all of it")
    return [1]


@hf.task(batch=3, within=30)
def double_slowly(items: list[dict[str, Any]]) -> list[int]:
    """Wait for a file before it doubles."""
    folder = Path(items[0]["folder"])
    _note_batch(str(folder), items)
    while not (folder / "go").exists():
        time.sleep(0.02)
    return [2 * item["n"] for item in items]
