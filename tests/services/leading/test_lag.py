"""A process that is late knows it: this moment, and for what began before it was over."""

import asyncio
import time

from holdfast.services.leading.lag import LAG_SECONDS, LATE_SECONDS, LagWatch
from tests.waiting import eventually


def be_late() -> None:
    """Keep the loop from running."""
    time.sleep(LAG_SECONDS + LATE_SECONDS + 0.2)


async def test_a_process_that_was_blocked_has_been_late_since_then() -> None:
    clock = asyncio.get_running_loop().time
    lag = LagWatch()
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(0)
    began_at = clock()
    assert not lag.was_late_since(began_at)
    be_late()
    assert lag.was_late_since(clock()), "it is late this moment"
    await eventually(lambda: not lag.was_late_since(clock()))
    assert lag.was_late_since(began_at)
    watching.cancel()
