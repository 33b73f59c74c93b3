"""One method, two faces: called, it blocks; its `.aio` is awaited. The code is there once.

All calls to a server run on one event loop in a thread of its own, so any thread and any other
event loop may make them. What a method does before it returns its coroutine runs in the caller.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from holdfast.errors import Invalid

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Item = TypeVar("Item")
Owner = TypeVar("Owner", bound="HasLoop")
# A thread that waits without end hears no exception that is sent to it, as a worker does to stop.
SLICE_SECONDS = 0.2
LEAVE_SECONDS_MAX = 2.0
_END: Any = object()


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._name = name
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that has the thread."""
        return os.getpid() != self._pid

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine there and wait for its end; an interrupted wait ends the coroutine."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call would wait for itself here; await its .aio")
        call = _Call(work)
        try:
            future = self._begin(call)
            while not call.ended.wait(SLICE_SECONDS):
                pass
            return future.result()
        except CancelledError:
            raise self._closed() from None
        except BaseException:
            self._break_off(call)
            raise

    async def await_(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine there and await its end here."""
        future = self._begin(_Call(work))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._closed() from None

    def stop(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Cancel what runs there, run a last coroutine, and end the loop and its thread."""
        if self.is_forked:
            # The thread is not in this process; what it had belongs to the other one.
            if last is not None:
                last.close()
            return
        with self._lock:
            assert not self._is_stopped, "a loop's thread is stopped twice"
            self._is_stopped = True
        try:
            asyncio.run_coroutine_threadsafe(_wind_up(last), self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    def _begin(self, call: "_Call[Answer]") -> Future[Answer]:
        if self.is_forked:
            call.discard()
            raise Invalid(
                self._name, "was opened before this process was forked; open another one here"
            )
        with self._lock:
            if not self._is_stopped:
                return asyncio.run_coroutine_threadsafe(call.run(), self.loop)
        call.discard()
        raise self._closed()

    def _break_off(self, call: "_Call[Any]") -> None:
        if not call.ended.is_set():
            with suppress(RuntimeError):  # the loop is closed, and what ran there has ended
                self.loop.call_soon_threadsafe(call.cancel)
                call.ended.wait(LEAVE_SECONDS_MAX)

    def _closed(self) -> Invalid:
        return Invalid(self._name, "was closed before this call was answered; open it again")


class _Call(Generic[Answer]):
    """A coroutine on its way to the loop, to be broken off wherever an exception met its caller."""

    def __init__(self, work: Coroutine[Any, Any, Answer]) -> None:
        self.ended = threading.Event()
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    async def run(self) -> Answer:
        """Run the coroutine, unless it was cancelled before it began."""
        self._task = asyncio.current_task()
        try:
            if self._is_cancelled:
                self._work.close()
                raise asyncio.CancelledError
            return await self._work
        finally:
            self.ended.set()

    def cancel(self) -> None:
        """Break the coroutine off; called on its loop."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def discard(self) -> None:
        """Give up what will never run."""
        self._work.close()
        self.ended.set()


async def _wind_up(last: Coroutine[Any, Any, None] | None) -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=LEAVE_SECONDS_MAX)
    await asyncio.get_running_loop().shutdown_asyncgens()
    if last is not None:
        await last


class HasLoop(Protocol):
    """Whoever has methods of both faces says where they run."""

    @property
    def loop_thread(self) -> LoopThread:
        """The loop that runs them."""


class Bound(Generic[Given, Answer]):
    """A method of both faces, bound to its owner."""

    __slots__ = ("_function", "_owner")

    def __init__(self, function: Callable[..., Coroutine[Any, Any, Answer]], owner: Any) -> None:
        self._function = function
        self._owner = owner

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        """Call it and wait for the answer."""
        thread: LoopThread = self._owner.loop_thread
        return thread.run(self._function(self._owner, *args, **kwargs))

    async def aio(self, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        """Call it and await the answer."""
        thread: LoopThread = self._owner.loop_thread
        return await thread.await_(self._function(self._owner, *args, **kwargs))


class both(Generic[Owner, Given, Answer]):
    """Give an async method two faces."""

    def __init__(
        self, function: Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Answer]]
    ) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, owner: Owner, _: type | None = None) -> Bound[Given, Answer]:
        return Bound(self._function, owner)


class BoundStream(Generic[Given, Item]):
    """A method of both faces that yields, bound to its owner."""

    __slots__ = ("_function", "_owner")

    def __init__(self, function: Callable[..., AsyncGenerator[Item, None]], owner: Any) -> None:
        self._function = function
        self._owner = owner

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Generator[Item, None, None]:
        """Call it and wait for each item."""
        thread: LoopThread = self._owner.loop_thread
        items = _Turns(self._function(self._owner, *args, **kwargs))
        try:
            while (item := thread.run(items.take())) is not _END:
                yield item
        finally:
            with suppress(Invalid):  # a thread that was stopped has closed it before
                thread.run(items.close())

    async def aio(self, *args: Given.args, **kwargs: Given.kwargs) -> AsyncGenerator[Item, None]:
        """Call it and await each item."""
        thread: LoopThread = self._owner.loop_thread
        items = _Turns(self._function(self._owner, *args, **kwargs))
        try:
            while (item := await thread.await_(items.take())) is not _END:
                yield item
        finally:
            with suppress(Invalid):
                await thread.await_(items.close())


class both_stream(Generic[Owner, Given, Item]):
    """Give an async generator method two faces."""

    def __init__(
        self, function: Callable[Concatenate[Owner, Given], AsyncGenerator[Item, None]]
    ) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, owner: Owner, _: type | None = None) -> BoundStream[Given, Item]:
        return BoundStream(self._function, owner)


class _Turns(Generic[Item]):
    """A generator that is closed only when a step that was broken off has come to its end."""

    def __init__(self, items: AsyncGenerator[Item, None]) -> None:
        self._items = items
        self._turn = asyncio.Lock()

    async def take(self) -> Item:
        """Give the next item, or _END."""
        async with self._turn:
            return await anext(self._items, _END)

    async def close(self) -> None:
        """Let the generator clean up."""
        async with self._turn:
            await self._items.aclose()
