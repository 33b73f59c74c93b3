"""Functions that act in the name of their attempts, on a server that asks for tokens."""

import asyncio
import threading
from typing import Any

import holdfast as hf
from holdfast.errors import NotAllowed


@hf.task(queue="q")
def square(n: int) -> int:
    """Be a child."""
    return n * n


def act(given: list[int], *, ctx: hf.Context) -> dict[str, Any]:
    """Do all that an attempt may, and something that it may not."""
    found = ctx.checkpoint.load()
    ctx.checkpoint.save({"seen": given})
    ctx.event("loaded", rows=len(given))
    ctx.progress(0.5, "half")
    name = f"by-lease/{ctx.task_id}"
    ctx.register_endpoint(name, "127.0.0.1:1")
    children = square.map(given)
    total = sum(children.results(timeout=60)) + ctx.submit(square, 5).result(timeout=60)
    with hf.Client() as client:
        address = client.endpoint(name)
        waiting = square.with_options(delay=1000).submit(1)
        state = client.job(waiting.id).cancel()
        refused = [_refusal(client.jobs.list), _refusal(client.job, ctx.job_id)]
        in_thread: list[str] = []
        thread = threading.Thread(
            target=lambda: in_thread.append(client.job(children.id).status().state)
        )
        thread.start()
        thread.join()
    return {
        "found": found,
        "kept": ctx.checkpoint.load(),
        "total": total,
        "address": address,
        "cancelled": state,
        "refused": refused,
        "in_thread": in_thread,
        "removed": ctx.remove_endpoint(name),
    }


def _refusal(read: Any, *arguments: Any) -> str:
    try:
        read(*arguments)
    except NotAllowed as refused:
        return refused.lacks
    return "nothing"


act_in_thread = hf.task(queue="q")(act)


@hf.task(queue="q", isolation="process")
def act_in_process(given: list[int], *, ctx: hf.Context) -> dict[str, Any]:
    """Do it in a process of its own."""
    return act(given, ctx=ctx)


@hf.task(queue="q")
async def act_in_loop(given: list[int], *, ctx: hf.Context) -> dict[str, Any]:
    """Do some of it in a coroutine."""
    await ctx.checkpoint.save.aio({"seen": given})
    await ctx.event.aio("loaded", rows=len(given))
    children = await square.map.aio(given)
    values, last = await asyncio.gather(children.results.aio(timeout=60), ctx.submit.aio(square, 5))
    return {"total": sum(values) + await last.result.aio(timeout=60)}


@hf.task(queue="q", on_exhausted="fail")
def fail(given: list[int]) -> None:
    """Have something to undo."""
    raise hf.PermanentError(f"not with {given}")


@hf.task(queue="q")
def undo(undone: hf.Undo, *, ctx: hf.Context) -> list[Any]:
    """Tell what is undone."""
    ctx.event("undone")
    return [undone.args, undone.truncated]
