"""What real workers run for the dashboard's tests."""

import asyncio
import time

import holdfast as hf

QUEUE = "browser"


@hf.task(queue=QUEUE)
async def greet(name: str) -> str:
    """Say something and succeed."""
    print(f"INFO hello {name}", flush=True)
    return f"hello {name}"


@hf.task(queue=QUEUE)
async def stay(*, ctx: hf.Context) -> str:
    """Go on until asked to stop."""
    for _ in range(6000):
        if ctx.cancelled:
            raise hf.PermanentError("stopped, as asked")
        await asyncio.sleep(0.05)
    return "stayed"


@hf.task(queue=QUEUE)
def nap(seconds: float) -> float:
    """Take a while that is known."""
    time.sleep(seconds)
    return seconds


@hf.task(queue=QUEUE)
def refuse(text: str) -> str:
    """Fail for good, with what was given in the error."""
    raise hf.ValidationError(f"{text!r} will not do")


@hf.task(queue=QUEUE, priority=3, owner="<b>mail</b> team")
def label(text: str, times: int = 2, *, tags: list[str] | None = None) -> str:
    """Repeat a <b>text</b>, and name its tags."""
    return f"{text * times} {tags}"
