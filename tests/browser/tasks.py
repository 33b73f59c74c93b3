"""What real workers run for the dashboard's tests."""

import asyncio

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
def refuse(text: str) -> str:
    """Fail for good, with what was given in the error."""
    raise hf.ValidationError(f"{text!r} will not do")
