"""Waiting for facts: looked at again and again, never for ever."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_SECONDS = 20.0


async def until(fact: Callable[[], Any | Awaitable[Any]]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = fact()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)
