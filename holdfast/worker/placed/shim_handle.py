"""The worker's handle on the shims of its attempts, whichever worker process started them."""

import asyncio
import fcntl
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import msgspec

from holdfast.errors import Invalid
from holdfast.worker.placed.launcher_handle import Launcher
from holdfast.worker.placed.shim_launch import launch_shim
from holdfast.worker.placed.shim_leftovers import (
    kill_leftovers,
    read_log_tail,
    read_report,
    remove_folder,
)
from holdfast.worker.placed.shim_messages import ShimExit, ShimOrder, ShimStarted, UsageSoFar
from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.command_deadline import SAY_HARD, say_deadline, say_soft
from holdfast.worker.running.regular_file import read_regular

ORDER_BYTES_MAX = 256 << 20  # more than any that was written here
POLL_SECONDS = 1.0  # the backstop of a wait that is woken by the shim's end
UNLOCK_SECONDS = 0.005  # between a shim's end of file and the end of its lock
KILL_SECONDS_MAX = 30.0
OVERDUE_SECONDS = 2.0  # a shim that has not kept its deadline by then is stuck


class Shim:
    """A shim, its command and their folder. One event loop owns it."""

    def __init__(self, folder: Path, order: ShimOrder) -> None:
        self.folder = folder
        self.token = order.token
        self.uid = order.uid
        self.note = order.note
        self._overdue_at = math.inf  # of an adopted one we do not know
        self._said = asyncio.Event()  # while it is waited for

    @classmethod
    async def start(
        cls, launcher: Launcher, folder: Path, order: ShimOrder, *, inherit: Sequence[int] = ()
    ) -> Self:
        """Start a command under a shim, which keeps the descriptors; it outlives this process.

        Raises OSError if this host cannot. What hinders the command itself, `wait` returns. If
        cancelled, the shim may have been started: adopt the folder.
        """
        order.check()
        await asyncio.to_thread(launch_shim, launcher, folder, order, inherit=inherit)
        started = cls(folder, order)
        started._expect_end(order.deadline)
        return started

    @classmethod
    def adopt(cls, folder: Path) -> Self:
        """Take over a shim of another worker process: alive, ended or killed."""
        try:
            # Not by msgspec alone: names and values of an environment need not be Unicode.
            fields = json.loads(read_regular(folder / shim_folder.ORDER, ORDER_BYTES_MAX))
            order = msgspec.convert(fields, ShimOrder)
            order.check()
        except (OSError, ValueError, RecursionError) as error:
            raise Invalid("folder", f"{folder} holds no order of a shim: {error}") from error
        return cls(folder, order)

    def is_alive(self) -> bool:
        """Tell whether the shim runs: it holds its lock to its end."""
        with self._try_lock(fcntl.LOCK_SH) as is_locked:
            return not is_locked

    def has_started(self) -> bool:
        """Tell whether the command runs or ran."""
        return (self.folder / shim_folder.STARTED).exists()

    async def wait_for_start(self) -> None:
        """Wait until the command runs or ran; `wait` has to be under way, to hear of it."""
        while not self.has_started():
            self._said.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._said.wait()

    def read_usage(self) -> UsageSoFar | None:
        """Read what the command has used until lately, if the shim has written any of it down."""
        return read_report(self.folder / shim_folder.USAGE, UsageSoFar)

    def renew(self, deadline: float) -> None:
        """Move the deadline at which the shim kills the command."""
        if not math.isfinite(deadline):
            raise Invalid("deadline", f"{deadline} is not a time of the boot clock")
        self._expect_end(deadline)
        self._send(say_deadline(deadline))

    def soft(self, grace: float) -> None:
        """Ask the command to end, and have it killed when the grace is over; the first counts."""
        if not 0 <= grace < math.inf:
            raise Invalid("grace", f"{grace} is not a number of seconds")
        self._send(say_soft(grace))

    def hard(self) -> None:
        """Have the command killed at once; a shim that is stuck is killed after a while."""
        self._overdue_at = min(self._overdue_at, boot_clock() + KILL_SECONDS_MAX)
        self._send(SAY_HARD)

    async def wait(self) -> ShimExit:
        """Wait until nothing of the command is left, and return how it ended.

        What a shim leaves that was killed, or that is stuck past its deadline, is ended here.
        """
        while True:
            if not self.is_alive():
                ended = await asyncio.to_thread(self._find_end)
                if ended is not None:
                    return ended
            elif boot_clock() >= self._overdue_at:
                await asyncio.to_thread(kill_leftovers, self.folder, self.token, self.uid)
            await self._wait_for_end_of_file()

    def remove(self) -> None:
        """Delete the folder of a shim that has ended."""
        assert not self.is_alive(), "a shim that runs needs its folder"
        remove_folder(self.folder)

    def _expect_end(self, deadline: float) -> None:
        self._overdue_at = max(deadline, boot_clock()) + OVERDUE_SECONDS

    def _send(self, line: str) -> None:
        # No reader: it has ended. No room: it is stuck, and killed when it is overdue.
        with suppress(OSError):
            control = os.open(self.folder / shim_folder.CONTROL, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(control, line.encode() + b"\n")  # shorter than PIPE_BUF: all or nothing
            finally:
                os.close(control)

    @contextmanager
    def _try_lock(self, mode: int) -> Iterator[bool]:
        """Hold the shim's lock for a block, unless it is held; True if there is none any more."""
        lock = shim_folder.open_lock(str(self.folder), os.O_CREAT)
        if lock is None:
            yield True
            return
        try:
            try:
                fcntl.flock(lock, mode | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(lock)

    async def _wait_for_end_of_file(self) -> None:
        """Wait until the shim has closed its end of `alive`, but not for long."""
        loop = asyncio.get_running_loop()
        is_closed = asyncio.Event()
        try:
            alive = os.open(self.folder / shim_folder.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            await asyncio.sleep(POLL_SECONDS)
            return

        def read() -> None:
            with suppress(BlockingIOError):
                if os.read(alive, len(shim_folder.BEGUN)):
                    self._said.set()
                else:
                    loop.remove_reader(alive)
                    is_closed.set()

        try:
            loop.add_reader(alive, read)
            read()  # an end before we opened it wakes nobody
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await is_closed.wait()
            if is_closed.is_set() and self.is_alive():  # it was killed, and is on its way
                await asyncio.sleep(UNLOCK_SECONDS)
        except OSError:  # not the pipe any more that it was
            await asyncio.sleep(POLL_SECONDS)
        finally:
            loop.remove_reader(alive)
            os.close(alive)

    def _find_end(self) -> ShimExit | None:
        """Read how the command ended, or end what is left of it; None if it is not gone yet."""
        path = self.folder / shim_folder.EXIT
        # Held while the end is written down: a shim that comes too late finds it and goes away.
        with self._try_lock(fcntl.LOCK_EX) as is_locked:
            if not is_locked:
                return None
            ended = read_report(path, ShimExit)
            if ended is None:  # lost, or spoiled by the command
                if not kill_leftovers(self.folder, self.token, self.uid):
                    return None
                ended = self._lost_exit()
                with suppress(OSError):  # no room, or no folder any more: we know it all the same
                    shim_folder.write_json(str(path), msgspec.to_builtins(ended), is_synced=True)
            return ended

    def _lost_exit(self) -> ShimExit:
        started = read_report(self.folder / shim_folder.STARTED, ShimStarted)
        logged = read_log_tail(self.folder)
        return ShimExit(
            exit_code=None,
            signal=None,
            reason="shim_lost",
            error="its shim was lost, so it was killed" + (f": {logged}" if logged else ""),
            started_at=None if started is None else started.started_at,
            ended_at=time.time(),
            usage=None,
            limits="none" if started is None else started.limits,
        )
