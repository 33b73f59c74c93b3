"""Methods of both faces, and the loop that runs them."""

import asyncio
import ctypes
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.client.both import LoopThread, both, both_stream
from holdfast.errors import Invalid
from tests.client.forks import in_a_fork


class Counter:
    """Counts on a loop of its own."""

    def __init__(self) -> None:
        self.loop_thread = LoopThread("counter")
        self.entered = threading.Event()
        self.left = threading.Event()
        self.prepared_in: list[str] = []

    @both
    async def add(self, a: int, b: int = 1) -> int:
        """Add."""
        await asyncio.sleep(0)
        return a + b

    @both
    def name_threads(self) -> Coroutine[Any, Any, str]:
        """Say where this runs, first and then."""
        self.prepared_in.append(threading.current_thread().name)
        return self._name_thread()

    async def _name_thread(self) -> str:
        return threading.current_thread().name

    @both
    async def hang(self) -> None:
        """Wait until somebody has enough."""
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()

    @both
    async def fail(self, error: BaseException) -> None:
        """Raise."""
        raise error

    @both
    async def call_itself(self) -> int:
        """Block the loop it runs on."""
        return self.add(1)

    @both_stream
    async def count(self, upto: int) -> AsyncGenerator[int, None]:
        """Count."""
        try:
            for number in range(upto):
                await asyncio.sleep(0)
                yield number
        finally:
            self.left.set()

    @both_stream
    async def leave_slowly(self) -> AsyncGenerator[int, None]:
        """Yield nothing, and take a few steps to come to an end."""
        self.entered.set()
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            self.left.set()

    @both_stream
    async def yield_one_and_hang(self) -> AsyncGenerator[int, None]:
        """Yield, and wait until somebody has enough."""
        try:
            yield 1
            self.entered.set()
            await asyncio.Event().wait()
        finally:
            self.left.set()


@pytest.fixture
def counter() -> Iterator[Counter]:
    counter = Counter()
    thread = counter.loop_thread
    yield counter
    if not thread.loop.is_closed():
        thread.stop()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_method_called_blocks_and_answers(counter: Counter) -> None:
    assert counter.add(2, b=3) == 5


async def test_a_method_awaited_answers(counter: Counter) -> None:
    assert await counter.add.aio(2) == 3


async def test_many_may_be_awaited_at_once(counter: Counter) -> None:
    answers = await asyncio.gather(*(counter.add.aio(number) for number in range(50)))
    assert answers == list(range(1, 51))


def test_what_comes_before_the_coroutine_runs_in_the_caller(counter: Counter) -> None:
    assert counter.name_threads() == "counter"
    assert counter.prepared_in == [threading.current_thread().name]


@pytest.mark.parametrize("error", [KeyError("x"), TimeoutError("its own"), Invalid("a", "b")])
async def test_an_error_is_raised_by_both_faces(counter: Counter, error: Exception) -> None:
    with pytest.raises(type(error)) as blocked:
        counter.fail(error)
    with pytest.raises(type(error)) as awaited:
        await counter.fail.aio(error)
    assert repr(blocked.value) == repr(awaited.value) == repr(error)


def test_a_method_keeps_its_docstring() -> None:
    assert vars(Counter)["add"].__doc__ == "Add."
    assert vars(Counter)["count"].__doc__ == "Count."


def test_a_blocking_call_on_its_own_loop_is_an_error_and_no_deadlock(counter: Counter) -> None:
    with pytest.raises(RuntimeError, match=r"await its \.aio"):
        counter.call_itself()


def test_a_wait_that_is_interrupted_ends_the_coroutine(counter: Counter) -> None:
    waiting = threading.get_ident()

    def interrupt() -> None:
        counter.entered.wait(10)
        while sys._current_frames()[waiting].f_code.co_filename != threading.__file__:
            pass  # not there yet
        signal.raise_signal(signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        counter.hang()
    assert counter.left.is_set()
    interrupter.join()


class Stop(BaseException):
    """What a worker raises in a thread that has to stop."""


def test_a_waiting_thread_hears_an_exception_that_is_sent_to_it(
    counter: Counter, pool: ThreadPoolExecutor
) -> None:
    thread_id = pool.submit(threading.get_ident).result(10)
    waiting = pool.submit(counter.hang)
    counter.entered.wait(10)
    sent = ctypes.pythonapi["PyThreadState_SetAsyncExc"](
        ctypes.c_ulong(thread_id), ctypes.py_object(Stop)
    )
    assert sent == 1
    assert isinstance(waiting.exception(10), Stop)
    assert counter.left.is_set()


async def test_a_cancelled_await_ends_the_coroutine(counter: Counter) -> None:
    waiting = asyncio.create_task(counter.hang.aio())
    await asyncio.to_thread(counter.entered.wait, 10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(counter.left.wait, 10)


def test_who_waits_in_a_thread_learns_of_the_stop(
    counter: Counter, pool: ThreadPoolExecutor
) -> None:
    waiting = pool.submit(counter.hang)
    counter.entered.wait(10)
    counter.loop_thread.stop()
    problem = "counter: was closed before this call was answered; open it again"
    assert str(waiting.exception(10)) == problem


async def test_who_awaits_learns_of_the_stop_and_is_not_cancelled(counter: Counter) -> None:
    waiting = asyncio.create_task(counter.hang.aio())
    await asyncio.to_thread(counter.entered.wait, 10)
    await asyncio.to_thread(counter.loop_thread.stop)
    with pytest.raises(Invalid, match="was closed"):
        await waiting


def test_a_call_after_the_stop_is_refused(counter: Counter) -> None:
    counter.loop_thread.stop()
    with pytest.raises(Invalid, match="was closed"):
        counter.add(1)


def test_a_stop_runs_a_last_coroutine_when_all_others_have_ended(
    counter: Counter, pool: ThreadPoolExecutor
) -> None:
    seen: list[bool] = []

    async def last() -> None:
        seen.append(counter.left.is_set())

    waiting = pool.submit(counter.hang)
    counter.entered.wait(10)
    counter.loop_thread.stop(last())
    assert isinstance(waiting.exception(10), Invalid)
    assert seen == [True]


def test_the_thread_is_gone_after_a_stop(counter: Counter) -> None:
    counter.loop_thread.stop()
    assert "counter" not in [thread.name for thread in threading.enumerate()]


def test_a_forked_process_is_told_to_open_its_own(counter: Counter) -> None:
    said = in_a_fork(lambda: counter.add(1))
    problem = "counter: was opened before this process was forked; open another one here"
    assert said == f"Invalid: {problem}"
    assert in_a_fork(counter.loop_thread.stop) == "None"
    assert counter.add(1) == 2


def test_a_stream_yields_to_a_loop(counter: Counter) -> None:
    assert list(counter.count(3)) == [0, 1, 2]
    assert counter.left.is_set()


async def test_a_stream_yields_to_an_async_loop(counter: Counter) -> None:
    assert [number async for number in counter.count.aio(3)] == [0, 1, 2]


def test_a_stream_that_is_left_early_is_closed(counter: Counter) -> None:
    for number in counter.count(1000):
        if number == 1:
            break
    assert counter.left.is_set()


async def test_an_async_stream_that_is_left_early_is_closed(counter: Counter) -> None:
    async with aclosing(counter.count.aio(1000)) as numbers:
        assert await anext(numbers) == 0
    assert counter.left.is_set()


async def test_a_cancelled_stream_is_left_in_its_own_time(counter: Counter) -> None:
    async def read() -> None:
        async for _ in counter.leave_slowly.aio():
            pass

    reading = asyncio.create_task(read())
    await asyncio.to_thread(counter.entered.wait, 10)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert counter.left.is_set()


def test_who_waits_for_a_stream_learns_of_the_stop(
    counter: Counter, pool: ThreadPoolExecutor
) -> None:
    waiting = pool.submit(list, counter.yield_one_and_hang())
    counter.entered.wait(10)
    counter.loop_thread.stop()
    assert isinstance(waiting.exception(10), Invalid)
    assert counter.left.is_set()


def test_a_stream_may_be_left_after_the_stop(counter: Counter) -> None:
    numbers = counter.count(1000)
    assert next(numbers) == 0
    counter.loop_thread.stop()
    assert counter.left.is_set()
    numbers.close()
