"""The loop of user coroutines: in its own thread, whatever they do to it, and closed in the end."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator

import pytest
import uvloop

from holdfast.worker.claimed import user_loop as user_loop_module
from holdfast.worker.claimed.user_loop import UserLoop
from tests.waiting import eventually


@pytest.fixture
async def opened() -> AsyncIterator[UserLoop]:
    """A loop that is closed after the test."""
    user_loop = UserLoop()
    yield user_loop
    user_loop.close()


async def name_thread() -> str:
    """Say where this runs."""
    return threading.current_thread().name


async def on(user_loop: UserLoop) -> str:
    """Run a coroutine there."""
    there = asyncio.run_coroutine_threadsafe(name_thread(), user_loop.loop)
    return await asyncio.wrap_future(there)


async def test_coroutines_run_in_a_thread_of_their_own(opened: UserLoop) -> None:
    assert await on(opened) == "holdfast-coroutines"


def test_it_is_of_the_kind_that_the_worker_runs_on_and_can_start_processes() -> None:
    async def start_there() -> int | None:
        process = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
        return await process.wait()

    async def open_one() -> tuple[type, int | None]:
        user_loop = UserLoop()
        there = asyncio.run_coroutine_threadsafe(start_there(), user_loop.loop)
        code = await asyncio.wrap_future(there)
        user_loop.close()
        return type(user_loop.loop), code

    assert uvloop.run(open_one()) == (uvloop.Loop, 3)


async def test_it_goes_on_when_user_code_stops_it_or_breaks_out(opened: UserLoop) -> None:
    for harm in (opened.loop.stop, sys.exit):
        opened.loop.call_soon_threadsafe(harm)
        assert await on(opened) == "holdfast-coroutines"


async def test_what_is_left_there_is_cancelled_at_the_end() -> None:
    user_loop = UserLoop()
    ends: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    begun = asyncio.run_coroutine_threadsafe(linger(), user_loop.loop)
    await on(user_loop)
    user_loop.close()
    assert begun.cancelled()
    assert ends == ["cancelled"]
    assert user_loop.loop.is_closed()


async def test_a_blocked_loop_says_where_and_is_left_alone_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_loop_module, "CLOSE_SECONDS_MAX", 0.05)
    user_loop = UserLoop()
    began, let_go = threading.Event(), threading.Event()

    def block_here() -> None:
        began.set()
        let_go.wait(60)

    user_loop.loop.call_soon_threadsafe(block_here)
    await eventually(began.is_set)
    assert "in block_here" in user_loop.describe_position()
    user_loop.close()
    assert not user_loop.loop.is_closed()
    let_go.set()
    await eventually(user_loop.loop.is_closed)
