"""Waiting that a cancellation does not cut short."""

import asyncio
from collections.abc import Callable
from typing import Any


async def wait_until_done(future: asyncio.Future[Any], *, on_cancel: Callable[[], object]) -> bool:
    """Wait for the end of something, come what may; returns whether we were cancelled meanwhile."""
    was_cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            was_cancelled = True
            on_cancel()
    return was_cancelled
