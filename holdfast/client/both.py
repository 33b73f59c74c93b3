"""One method, two faces: called, it blocks; its `.aio` is awaited. The code is there once.

All calls to a server run on one event loop in a thread of its own, so any thread and any other
event loop may make them.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Owner = TypeVar("Owner", bound="HasLoop")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine there and wait for its end."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call would wait for itself here; await its .aio")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def await_(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine there and await its end here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def stop(self) -> None:
        """End the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


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
        return self._thread().run(self._function(self._owner, *args, **kwargs))

    async def aio(self, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        """Call it and await the answer."""
        return await self._thread().await_(self._function(self._owner, *args, **kwargs))

    def _thread(self) -> LoopThread:
        thread: LoopThread = self._owner.loop_thread
        return thread


class both(Generic[Owner, Given, Answer]):
    """Give an async method two faces."""

    def __init__(
        self, function: Callable[Concatenate[Owner, Given], Coroutine[Any, Any, Answer]]
    ) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, owner: Owner, _: type | None = None) -> Bound[Given, Answer]:
        return Bound(self._function, owner)
