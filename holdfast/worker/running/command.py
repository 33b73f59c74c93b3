"""A command of a task: started under the watchdog's eyes, waited for, and never left behind.

It leads a session of its own, and so a process group. A group alone would keep the worker's
terminal: Ctrl-C is the worker's to act on, and a command that asks the terminal for a password
would be stopped for ever instead of failing. Output goes to a file, not a pipe: a grandchild that
keeps a pipe open would hold up the end.
"""

import asyncio
import marshal
import os
import signal as signals
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from holdfast.errors import Refused
from holdfast.worker.processes import launcher, process_tree
from holdfast.worker.processes.mark import mark_of
from holdfast.worker.processes.watchdog import (
    MARK_NAME,
    TOKEN_NAME,
    entry_of,
    kill_group,
    sweep,
)
from holdfast.worker.running.uncancelled import wait_until_done
from holdfast.worker.watchdog_handle import WatchdogHandle, WatchdogLost, plain_environment

REASON_BYTES_MAX = 4096


class CannotStart(Refused):
    """The command cannot be run as asked: the task has failed, not the worker."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class ProcessEnded:
    """How a process ended: with an exit code or by a signal; neither if that was lost."""

    exit_code: int | None = None
    signal: int | None = None
    # What it has used, with those that it waited for.
    cpu_seconds: float | None = field(default=None, compare=False)


class RunningProcess:
    """A command that has been started. One event loop owns it.

    Its end is the end of all that carry its mark: one token runs one command at a time.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], watchdog: WatchdogHandle, mark: str, *, uid: int
    ) -> None:
        self._process = process
        self._watchdog = watchdog
        self._mark = mark
        self._uid = uid
        self._lock = threading.Lock()
        self._is_forgotten = False
        self._pidfd = _open_pidfd(process)
        self._ending = asyncio.create_task(self._end())

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        watchdog: WatchdogHandle,
        token: str,
        deadline: float,
        inherit: Sequence[int] = (),
        lock_fd: int | None = None,
        cwd: Path | None = None,
        uid: int = 0,
    ) -> Self:
        """Run a command in `folder/work` (or cwd), its output going to `folder/output.log`.

        It inherits the descriptors under their own numbers, and with a uid it is that user. Raises
        CannotStart if the command or its folder is at fault, OSError if this host is, WatchdogLost
        if nobody would watch over it.
        """
        if not argv:
            raise CannotStart("the command is empty: name a program")
        if cwd is None:
            cwd = folder / "work"
            cwd.mkdir(exist_ok=True)
        mark = mark_of(token)
        own = {TOKEN_NAME: token, MARK_NAME: mark}
        order: launcher.Order = (list(argv), {**environment, **own}, str(cwd), uid)
        passed = [*inherit] if lock_fd is None else [*inherit, lock_fd]
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                fd = theirs.fileno()
                launching = asyncio.ensure_future(
                    asyncio.to_thread(_launch, fd, passed, folder=folder, mark=mark)
                )
                # Seen through even if cancelled: what has begun must be ended and reaped.
                was_cancelled = await wait_until_done(launching, on_cancel=lambda: None)
            running = cls(launching.result(), watchdog, mark, uid=uid)
            try:
                if was_cancelled:
                    raise asyncio.CancelledError
                running.renew(deadline)
                reason = await _send(ours, marshal.dumps(order))
            except BaseException:
                running.kill()
                raise
        if reason:
            await running.wait()
            raise CannotStart(reason)
        return running

    @property
    def pid(self) -> int:
        """The number of the process and of its group."""
        return self._process.pid

    def renew(self, deadline: float) -> None:
        """Move the deadline at which the watchdog kills the command."""
        # The keeper's thread calls this: a group that has been forgotten must stay so.
        with self._lock:
            if self._is_running() and not self._is_forgotten:
                self._watchdog.watch_group(self.pid, self._mark, deadline, uid=self._uid)

    def terminate(self) -> None:
        """Ask the command's group to end."""
        if self._is_running():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signals.SIGTERM)

    def kill(self) -> None:
        """Kill the command's group; `wait` returns when all that carry its mark are gone too."""
        if self._is_running():
            kill_group(self.pid)

    async def wait(self) -> ProcessEnded:
        """Wait for the command's end and that of everything it left behind."""
        return await asyncio.shield(self._ending)

    def _is_running(self) -> bool:
        """Tell whether the number is still ours: a process is reaped last of all."""
        return self._process.returncode is None

    async def _end(self) -> ProcessEnded:
        try:
            await _wait_readable(self._pidfd)
            uids = [self._uid] if self._uid else []
            await asyncio.to_thread(sweep, [self.pid], [entry_of(self._mark)], uids=uids)
            with self._lock, suppress(WatchdogLost):  # then there is nobody to tell
                self._is_forgotten = True
                self._watchdog.forget_group(self.pid)
        except asyncio.CancelledError:  # the loop closes: the watchdog still knows the group
            kill_group(self.pid)
            raise
        finally:
            cpu_seconds = process_tree.read_cpu_seconds(self.pid)
            ended = replace(_reap(self._pidfd), cpu_seconds=cpu_seconds)
            os.close(self._pidfd)
            self._process.returncode = 0  # or Popen would complain of a process left running
        return ended


def _launch(
    control: int, passed: Sequence[int], *, folder: Path, mark: str
) -> subprocess.Popen[bytes]:
    with open(folder / "output.log", "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", launcher.__file__, str(control)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(control, *passed),
            start_new_session=True,
            env={**plain_environment(), MARK_NAME: mark},
        )


def _open_pidfd(process: subprocess.Popen[bytes]) -> int:
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        process.wait()
        raise


async def _send(control: socket.socket, order: bytes) -> str:
    """Send the launcher its order; returns why it cannot be carried out, or nothing."""
    loop = asyncio.get_running_loop()
    control.setblocking(False)
    try:
        await loop.sock_sendall(control, order)
        control.shutdown(socket.SHUT_WR)
        reason = await loop.sock_recv(control, REASON_BYTES_MAX)
    except ConnectionError:  # killed already: its end says so
        return ""
    return reason.decode(errors="replace")


async def _wait_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)


def _reap(pidfd: int) -> ProcessEnded:
    try:
        end = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:  # somebody in this process waits for any child
        return ProcessEnded()
    if end is None:
        return ProcessEnded()
    if end.si_code == os.CLD_EXITED:
        return ProcessEnded(exit_code=end.si_status)
    return ProcessEnded(signal=end.si_status)
