"""`ctx.limit`: wait for one's turn at a rate that all tasks share."""

import asyncio
import time
from typing import TYPE_CHECKING

from holdfast.errors import RetryAfter, TransientError
from holdfast.wire.limits import TAKE_PATH, LimitTakeRequest, LimitTurn

if TYPE_CHECKING:
    from holdfast.client.context import Context

PATIENCE_SECONDS = 60.0
# So often it looks whether it should stop.
LOOK_SECONDS = 0.2


async def wait_for_turn(
    context: "Context", name: str, count: float = 1, *, patience: float = PATIENCE_SECONDS
) -> None:
    """Wait until the limit of this name lets `count` through, for all workers together.

    Would that take longer than `patience` seconds, nothing is taken, and RetryAfter is raised: not
    caught, it puts the task off until then, at no cost. TransientError if it is asked to stop.
    """
    body = LimitTakeRequest(*context.identity.lease, name, count, patience)
    turn = await context._call(TAKE_PATH, body, LimitTurn)
    if not turn.granted:
        reason = f"limit {name} has nothing for this task within {patience:g} s"
        raise RetryAfter(max(turn.wait_seconds or patience, 1.0), reason, free=True)
    due = time.monotonic() + (turn.wait_seconds or 0.0)
    while (rest := due - time.monotonic()) > 0:
        if context.cancelled:
            raise TransientError(f"was asked to stop while it waited for limit {name}")
        await asyncio.sleep(min(rest, LOOK_SECONDS))
