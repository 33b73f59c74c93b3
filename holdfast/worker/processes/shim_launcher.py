"""Start shims by fork, from one process per worker that has its imports done.

Run as a program (`python -I -S shim.py SOCKET_FD WORKER_PID ROOM`). The worker sends a
message for each shim (its mark and folder, and with it the descriptors: the folder's `alive`, its
log, and what the shim is to keep) and hears of the result by `alive` alone: a shim that is ready
says so, and one that never comes has let go of its end.

    worker ── mark, folder, descriptors ──► launcher ── fork ──► shim (a session of its own)
      ▲                                                           │
      └───────────────── READY, or end of file, on `alive` ◄──────┘

A launcher keeps nothing in mind: its shims run on when it dies, and the worker starts another. It
ends with its worker. It has one thread, or a fork could copy a lock that nobody gives back.

Shims are found by the mark in their environment, and people know them by their command line. A
fork has those of the launcher, so both are overwritten in place, where the kernel reads them: the
mark before the fork, so that there is never a shim without its mark.
"""

import ctypes
import gc
import os
import select
import signal
import socket
import sys
from array import array

from holdfast.worker.processes import command_supervisor, shim, watchdog

TYPE_CHECKING = False  # not of `typing`, which would be a third of all that we import
if TYPE_CHECKING:
    from typing import NoReturn

MESSAGE_BYTES_MAX = 8192
DESCRIPTORS_MAX = 16
MARK_LENGTH = 32
NO_MARK = "-" * MARK_LENGTH
# Beyond this, the command line that a shim shows is cut off.
ROOM = " " * 400
_ARGUMENTS, _VARIABLES = slice(45, 47), slice(47, 49)  # of /proc/PID/stat, after the name


class _Shown:
    """A stretch of our memory that /proc shows to others."""

    def __init__(self, fields: slice) -> None:
        with open("/proc/self/stat", "rb") as file:
            text = file.read()
        self._start, end = map(int, text[text.rindex(b")") + 2 :].split()[fields])
        self._size = end - self._start

    def find(self, entry: bytes) -> int:
        """Find where an entry begins."""
        at = ctypes.string_at(self._start, self._size).find(b"\0" + entry)
        assert at >= 0, f"{entry!r} is not there"
        return at + 1

    def write(self, text: bytes, at: int = 0) -> None:
        """Overwrite what is there."""
        assert at + len(text) <= self._size, "there is no room for that"
        ctypes.memmove(self._start + at, text, len(text))

    def fill(self, text: bytes) -> None:
        """Overwrite all of it; what does not fit is left out."""
        self.write(text[: self._size - 1].ljust(self._size, b"\0"))


class Launcher:
    """Forks what its worker asks for, until that is gone."""

    def __init__(self, asked: socket.socket, worker: int) -> None:
        self._asked = asked
        self._worker = worker
        self._arguments = _Shown(_ARGUMENTS)
        self._variables = _Shown(_VARIABLES)
        name = watchdog.entry_of("")
        self._mark_at = self._variables.find(name) + len(name)
        # A child's end wakes the poll, and is reaped.
        self._woken, self._waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Start shims until the worker closes its end, or has died."""
        poller = select.poll()
        for fd in (self._asked.fileno(), self._worker, self._woken):
            poller.register(fd, select.POLLIN)
        gc.freeze()  # what is here stays: a shim that collected would copy all of its pages
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if self._worker in ready:
                return
            if self._woken in ready:
                self._reap()
            if self._asked.fileno() in ready and not self._launch():
                return

    def _launch(self) -> bool:
        """Start one shim; False if none will be asked for any more."""
        # Not by `recv_fds`, which drops the flag.
        message, extra, _, _ = self._asked.recvmsg(
            MESSAGE_BYTES_MAX, socket.CMSG_SPACE(4 * DESCRIPTORS_MAX), socket.MSG_CMSG_CLOEXEC
        )
        if not message:
            return False
        kept = [fd for _, _, packed in extra for fd in array("i", packed)]
        self._variables.write(message[:MARK_LENGTH], self._mark_at)
        try:
            is_shim = os.fork() == 0
        except OSError as error:  # no process or memory left: the worker sees that none came
            sys.stderr.write(f"a shim cannot be started: {error}\n")
            is_shim = False
        if is_shim:
            self._become_shim(os.fsdecode(message[MARK_LENGTH:]), kept[1])
        self._variables.write(NO_MARK.encode(), self._mark_at)
        for fd in kept:
            os.close(fd)
        return True

    def _become_shim(self, folder: str, log: int) -> "NoReturn":
        """Be the shim of a folder to its end; what else was handed over stays open till then."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for fd in (self._asked.detach(), self._worker, self._woken, self._waking):
            os.close(fd)
        os.dup2(log, 1)
        os.dup2(log, 2)
        words = [sys.executable, "-I", "-S", shim.__file__, folder]
        self._arguments.fill(b"\0".join(map(os.fsencode, words)))
        command_supervisor.main(folder)  # what it raises ends us, and is written to the log
        os._exit(0)  # at once: the worker waits for the lock

    def _reap(self) -> None:
        """Reap the shims that have ended."""
        try:
            while os.read(self._woken, MESSAGE_BYTES_MAX):
                continue
        except BlockingIOError:
            pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:  # there are none
            return


def main(asked: int, worker_pid: int) -> None:
    """Serve one worker to its end."""
    # What the worker, or whoever started it, ignores or blocks is no command's affair.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in ("HUP", "INT", "TERM", "PIPE", "XFSZ"):
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    try:
        worker = os.pidfd_open(worker_pid)
    except ProcessLookupError:
        return
    if os.getppid() == worker_pid:  # otherwise the number may be a stranger's by now
        Launcher(socket.socket(fileno=asked), worker).serve()
