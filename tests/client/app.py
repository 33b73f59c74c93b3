"""Functions of a user, as a worker would import them."""

import asyncio

import holdfast as hf


@hf.task(queue="q", retries=2)
async def greet(name: str, *, greeting: str = "hello", ctx: hf.Context) -> str:
    """Greet somebody."""
    await asyncio.sleep(0)
    return f"{greeting} {name} by attempt {ctx.attempt}"


@hf.task(queue="q")
def double(number: int) -> int:
    """Double a number."""
    return number * 2


@hf.task(queue="q", pickled=True)
def second(things: tuple[object, object]) -> object:
    """Give the second of two things that are no JSON."""
    return things[1]
