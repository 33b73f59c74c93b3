"""What the version before this one did not have yet: limits, chains, uniqueness, schedules."""

from datetime import timedelta
from typing import TypedDict

import holdfast as hf
from chaos.workload.record import complete_with_effect, executing, live
from chaos.workload.tasks import FACTOR, OFTEN

EVERY_SECONDS = 2
TIMEOUT_SECONDS = 1.0
OVERDUE_SECONDS = 6.0


class Keyed(TypedDict):
    """An input whose key a limit counts."""

    key: str
    n: int


@hf.task(**OFTEN)
def paid(n: int, *, ctx: hf.Context) -> int:
    """Write an effect with the success, in one transaction."""
    with executing(ctx):
        complete_with_effect(ctx, n * FACTOR)
        return n * FACTOR


@hf.task(**OFTEN, concurrency_key=hf.KeyOfInput("key"))
def limited(given: Keyed, *, ctx: hf.Context) -> int:
    """Hold a slot of a key."""
    with executing(ctx, given["key"]):
        live(ctx, 0.2, given["key"])
        return given["n"] * FACTOR


@hf.task(**OFTEN, isolation="process", timeout=TIMEOUT_SECONDS)
def overdue(n: int, *, ctx: hf.Context) -> int:
    """Run too long at first, whatever is said: the next attempt waits until this one is gone."""
    with executing(ctx):
        if ctx.attempt == 0:
            live(ctx, OVERDUE_SECONDS, is_stubborn=True)
        return n * FACTOR


@hf.task(**OFTEN, chain="chaos")
def chained(n: int, *, ctx: hf.Context) -> int:
    """Run when those before it in the chain have ended."""
    with executing(ctx, "chain"):
        return n * FACTOR


@hf.task(**OFTEN, unique=True)
def alone(n: int, *, ctx: hf.Context) -> int:
    """Be there once at a time."""
    with executing(ctx, f"unique-{n}"):
        live(ctx, 0.3, f"unique-{n}")
        return n * FACTOR


@hf.task(**OFTEN, schedule=timedelta(seconds=EVERY_SECONDS))
def scheduled(*, ctx: hf.Context) -> str:
    """Be submitted by a schedule."""
    with executing(ctx):
        return str(ctx.environment["HOLDFAST_SCHEDULED_AT"])
