"""Waiting for facts: looked at again and again, never for ever."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast, overload

from holdfast.store.database import LockTimeout

Found = TypeVar("Found")
PAUSE_SECONDS = 0.01
TRIES_MAX = 50


@overload
async def eventually(fact: Callable[[], Awaitable[Found]], *, seconds: float = ...) -> Found: ...


@overload
async def eventually(fact: Callable[[], Found], *, seconds: float = ...) -> Found: ...


async def eventually(
    fact: Callable[[], Awaitable[Found] | Found], *, seconds: float = 30.0
) -> Found:
    """Look until there is something to see, and return it; fail when that takes too long."""
    ends_at = time.monotonic() + seconds
    while True:
        found = fact()
        if isinstance(found, Awaitable):
            found = await cast(Awaitable[Found], found)
        if found:
            return found
        assert time.monotonic() < ends_at, f"{fact} has not come true; the last look: {found!r}"
        await asyncio.sleep(PAUSE_SECONDS)


async def insist(call: Callable[[], Awaitable[Found]]) -> Found:
    """Try again, as callers do, what has waited too long for somebody else's transaction."""
    for _ in range(TRIES_MAX):
        try:
            return await call()
        except LockTimeout:
            continue
    raise AssertionError(f"{call} could never have its locks")
