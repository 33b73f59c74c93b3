"""Waiting that a cancellation does not cut short."""

import asyncio

from holdfast.worker.running.uncancelled import wait_until_done
from tests.waiting import eventually


async def test_a_wait_goes_on_to_the_end_whoever_cancels_it() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    heard: list[int] = []
    waiting = asyncio.create_task(wait_until_done(future, on_cancel=lambda: heard.append(1)))
    for count in range(1, 4):
        await asyncio.sleep(0)
        waiting.cancel()
        await eventually(lambda count=count: len(heard) == count)  # type: ignore[misc]
    future.set_result(1)
    assert await waiting is True
    assert await wait_until_done(future, on_cancel=lambda: None) is False
