"""The tasks that `holdfast demo` runs: small ones, each with something to show."""

import asyncio
import time

import holdfast as hf

QUEUE = "demo"
STEPS = 8
# Three members who cannot do without each other: the one that fails takes the others along.
MEMBERS = 3
MEMBER = """
if [ "$HOLDFAST_ATTEMPT" != 0 ]; then exec sleep 0.5; fi
if [ "$HOLDFAST_TASK_INDEX" = 1 ]; then sleep 0.5; exit 7; fi
exec sleep 600
"""


@hf.task(queue=QUEUE)
async def thumbnail(picture: str) -> str:
    """Do a little work for each input."""
    await asyncio.sleep(0.05)
    return f"{picture}.png"


@hf.task(queue=QUEUE, retries=2, backoff=hf.Backoff(base=0.2))
async def flaky_call(*, ctx: hf.Context) -> str:
    """Fail twice, then succeed."""
    if ctx.attempt < 2:
        raise hf.DependencyUnavailable(f"no answer to call {ctx.attempt + 1}")
    return "answered the third call"


@hf.task(queue=QUEUE)
def parse_order(line: str) -> int:
    """Refuse an input that will never be right."""
    if not line.isdigit():
        raise hf.ValidationError(f"{line!r} is not an order number")
    return int(line)


@hf.task(queue=QUEUE)
async def export(*, ctx: hf.Context) -> str:
    """Take for ever, unless asked to stop."""
    for _ in range(600):
        if ctx.cancelled:
            raise hf.PermanentError("stopped half way, as asked")
        await asyncio.sleep(0.1)
    return "exported"


@hf.task(queue=QUEUE, lease=2.0)
def train(*, ctx: hf.Context) -> str:
    """Work in steps and leave a checkpoint after each, for whoever comes next."""
    first = ctx.checkpoint.load() or 0
    for step in range(first, STEPS):
        time.sleep(0.4)
        ctx.checkpoint.save(step + 1)
        ctx.progress((step + 1) / STEPS, f"step {step + 1}")
    return f"steps {first + 1} to {STEPS} by attempt {ctx.attempt}"


@hf.task(queue=QUEUE)
async def release_room(undo: hf.Undo) -> None:
    """Undo a reservation: what was given, and what came of it, is at hand."""
    await asyncio.sleep(0.05)


@hf.task(queue=QUEUE)
async def refund(undo: hf.Undo) -> None:
    """Undo a charge."""
    await asyncio.sleep(0.05)


@hf.task(queue=QUEUE, compensation=release_room)
async def reserve_room(guest: str) -> str:
    """Begin a trip."""
    return f"room for {guest}"


@hf.task(queue=QUEUE, compensation=refund)
async def charge(room: str) -> str:
    """Go on with what the step before has returned."""
    return f"paid: {room}"


@hf.task(queue=QUEUE)
async def book_flight(receipt: str) -> str:
    """Fail for good: what was done before must not stay."""
    raise hf.PermanentError("no seats left")
