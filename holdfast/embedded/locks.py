"""File locks with bounded waits: `flock` to hold, a POSIX lock to ask the kernel who does."""

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.embedded.errors import PostgresUnavailable

TURN_SECONDS = 0.01
_QUESTION = struct.Struct("hhqqi")  # Linux's `struct flock`: type, whence, start, length, pid


def turns_until(deadline: float) -> Iterator[float]:
    """Yield the monotonic time every few milliseconds, at least once, until the deadline."""
    while True:
        now = time.monotonic()
        yield now
        if now >= deadline:
            return
        time.sleep(TURN_SECONDS)


@contextmanager
def exclusive(path: Path, deadline: float) -> Iterator[None]:
    """Hold the exclusive lock. Raises PostgresUnavailable if it is not free by the deadline."""
    descriptor = open_lock(path)
    try:
        if not any(_try_lock(descriptor, fcntl.LOCK_EX) for _ in turns_until(deadline)):
            problem = (
                f"Another process has been starting or stopping Postgres for too long ({path})."
            )
            raise PostgresUnavailable(problem, "Try again, or look for a process that hangs.")
        try:
            yield
        finally:
            # Closing alone would leave the lock with a child that another thread has just forked.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


class SharedLock:
    """A shared lock held from `hold` to `release`, and by no forked child in its stead."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None  # a file, so that it is closed with the last reference
        self._holder_pid = 0

    @property
    def is_held(self) -> bool:
        """Tell whether this process holds the lock through this object."""
        return self._file is not None and self._holder_pid == os.getpid()

    def hold(self) -> None:
        """Take the lock if it is not held yet; never waits, for nobody keeps it exclusively."""
        if self.is_held:
            return
        file = os.fdopen(open_lock(self._path), "rb")
        fcntl.flock(file, fcntl.LOCK_SH)
        self._file, self._holder_pid = file, os.getpid()

    def release(self) -> None:
        """Give the lock back if it is held."""
        if self._file is None or not self.is_held:
            return
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()
        self._file = None


def is_free(path: Path) -> bool:
    """Tell whether nobody holds a `flock` on the file."""
    descriptor = open_lock(path)
    try:
        return _try_lock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def find_holder(path: Path) -> int | None:
    """Ask the kernel for the pid that holds the POSIX lock; 0 if we cannot see that process."""
    descriptor = open_lock(path)
    try:
        question = _QUESTION.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
    finally:
        os.close(descriptor)
    kind, _, _, _, pid = _QUESTION.unpack(answer)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def open_lock(path: Path) -> int:
    """Open a lock file; a new one belongs to the owner of its folder, also when root makes it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.geteuid() == 0:
            owner = path.parent.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        return descriptor


def _try_lock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
