"""Numbered lock files that tell whether a worker of this host and all its processes are gone.

The descriptor of a slot goes to the worker's watchdog and to every process of its work. They share
one lock, so nobody gets it before the last of them has ended: whoever takes a slot knows that the
incarnation recorded in it is gone. For the same reason the lock is never undone, only closed.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import Invalid, Unavailable
from holdfast.model.ids import WORKER_ID_LENGTH_MAX, check_worker_id


@dataclass(frozen=True)
class Slot:
    """A held slot; `previous` is the incarnation that held it last, proven gone."""

    fd: int
    number: int
    previous: str | None

    def record(self, incarnation: str) -> None:
        """Write down who holds the slot now, durably."""
        check_worker_id(incarnation, "incarnation")
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{incarnation}\n".encode(), 0)
        os.fsync(self.fd)

    def close(self) -> None:
        """Let go of the slot; it stays locked while a child still holds it."""
        os.close(self.fd)


def take_slot(folder: Path, *, slots_max: int = 1000) -> Slot:
    """Take the first free slot of the folder. Raises Unavailable when all are held."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(slots_max):
        fd = os.open(folder / f"slot-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            continue
        except OSError:
            os.close(fd)
            raise
        os.set_inheritable(fd, True)
        return Slot(fd, number, _read_incarnation(fd))
    raise Unavailable(
        f"all {slots_max} slots in {folder} are held; end workers of this host, or allow more"
    )


def _read_incarnation(fd: int) -> str | None:
    """Read the recorded incarnation; None if there is none or it was not written in full."""
    try:
        text = os.pread(fd, WORKER_ID_LENGTH_MAX + 2, 0).decode()
    except UnicodeDecodeError:
        return None
    if not text.endswith("\n"):
        return None
    try:
        return check_worker_id(text[:-1])
    except Invalid:
        return None
