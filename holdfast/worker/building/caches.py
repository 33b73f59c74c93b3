"""What the caches of a worker share: entries that are locked while in use, and how builds fail.

Several workers of a host share a cache. Whoever makes an entry holds its lock alone, whoever uses
it shares the lock, and only what nobody holds is evicted. The lock is one on the entry itself, file
or folder, so nothing else is left behind; a lock on what was removed meanwhile counts for nothing.
"""

import asyncio
import fcntl
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from holdfast.errors import Refused, Unavailable
from holdfast.model.work.outcomes import Stage
from holdfast.worker.running.uncancelled import wait_until_done

Answer = TypeVar("Answer")
TURN_SECONDS = 0.05


class BuildFailed(Refused):
    """What the job asks for cannot be built, here or anywhere: the attempt has failed."""

    stage: Stage = "fetch"


class BuildUnavailable(Unavailable):
    """This worker cannot build now, for reasons of its own: the worker has failed, not the task."""


class ToolMissing(BuildUnavailable):
    """A program is not there: to wait does not help, another worker or an installation may."""


class Hold:
    """A locked entry. A child that is given `fd` holds it too, even when this process has died."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd

    def is_current(self) -> bool:
        """Tell whether the entry still is where it was when it was opened."""
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(self.path))
        except FileNotFoundError:
            return False

    def share(self) -> bool:
        """Let others use the entry too; False if it got lost on the way."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # a change of lock is not one step, and somebody came between
            return False
        return self.is_current()

    def note_use(self) -> None:
        """Make it the entry that will be evicted last."""
        os.utime(self.fd)

    def close(self) -> None:
        """Hold it no longer; only closed, for whoever inherited it goes on."""
        os.close(self.fd)


def try_hold(path: Path, *, shared: bool = False, flags: int = os.O_RDONLY) -> Hold | None:
    """Lock an entry; None if it is not there, or somebody is in the way."""
    try:
        hold = Hold(path, os.open(path, flags | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(hold.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        if hold.is_current():
            return hold
    except BlockingIOError:
        pass
    except BaseException:
        hold.close()
        raise
    hold.close()
    return None


def evict(
    folder: Path, most: int, *, weigh: Callable[[Path], int], remove: Callable[[Path], None]
) -> None:
    """Remove what was used longest ago until the rest weighs little enough; what is held stays."""
    entries = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            entries.append((path.stat().st_mtime_ns, path, weigh(path)))
    total = sum(weight for _, _, weight in entries)
    for _, path, weight in sorted(entries):
        if total <= most:
            return
        hold = try_hold(path)
        if hold is not None:
            remove(path)
            hold.close()
            total -= weight


async def take_turns(seconds_max: float) -> AsyncIterator[None]:
    """Yield at once and then every few milliseconds, until the time is over."""
    clock = asyncio.get_running_loop().time
    ends_at = clock() + seconds_max
    while True:
        yield
        if clock() >= ends_at:
            return
        await asyncio.sleep(TURN_SECONDS)


async def in_thread(work: Callable[[threading.Event], Answer]) -> Answer:
    """Run blocking work in a thread; if cancelled, its event is set and its end awaited."""
    stop = threading.Event()
    working = asyncio.ensure_future(asyncio.to_thread(work, stop))
    if not await wait_until_done(working, on_cancel=stop.set):
        return working.result()
    if not working.cancelled():
        working.exception()
    raise asyncio.CancelledError
