"""An event loop for user coroutines, in a thread of its own.

A coroutine that blocks it keeps other coroutines waiting, but neither a claim nor a renewal.
"""

import asyncio
import logging
import sys
import threading
import traceback

log = logging.getLogger("holdfast.coroutines")
CLOSE_SECONDS_MAX = 2.0


class UserLoop:
    """A loop of the same kind as the one that it is opened on, running until it is closed."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = type(asyncio.get_running_loop())()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="holdfast-coroutines", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancel what user code has left there, and end the thread; one that is blocked is left."""
        self._is_closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(2 * CLOSE_SECONDS_MAX)

    def describe_position(self) -> str:
        """Say where in the code the thread is this moment."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame))

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_closing:  # user code may stop its loop
            try:
                self.loop.run_forever()
            except BaseException:
                log.exception("a callback of user code has interrupted its event loop")
        self.loop.run_until_complete(_cancel_all())
        self.loop.close()


async def _cancel_all() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=CLOSE_SECONDS_MAX)
    await asyncio.get_running_loop().shutdown_asyncgens()
