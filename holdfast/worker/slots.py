"""Numbered lock files that tell whether a worker of this host and all its processes are gone.

The descriptor of a slot goes to the worker's watchdog and to every process of its work. They share
one lock, so nobody gets it before the last of them has ended: whoever takes a slot knows that the
incarnation recorded in it is gone. For the same reason the lock is never undone, only closed.

The secret of that incarnation, by which the next one proves to the server whom it replaces, stands
in a file beside it, which no other process is given.
"""

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import Invalid, Unavailable
from holdfast.model.work.ids import WORKER_ID_LENGTH_MAX, check_worker_id
from holdfast.model.workers.worker_credentials import WorkerCredential, read_credential

FREE_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Slot:
    """A held slot; `previous` is the incarnation that held it last, proven gone.

    Its secret is empty if it was not left here in full.
    """

    fd: int
    number: int
    previous: WorkerCredential | None
    secret_path: Path

    def record(self, holder: WorkerCredential) -> None:
        """Write down who holds the slot now, durably."""
        check_worker_id(holder.worker_id, "incarnation")
        _write_secret(self.secret_path, holder)
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, f"{holder.worker_id}\n".encode(), 0)
        os.fsync(self.fd)

    def close(self) -> None:
        """Let go of the slot; it stays locked while a child still holds it."""
        os.close(self.fd)


def take_slot(folder: Path, *, left_by: str | None = None, slots_max: int = 1000) -> Slot:
    """Take the first free slot of the folder. Raises Unavailable when all are held.

    One whose last holder, `left_by`, has just died comes before all others, since only there it can
    be replaced, and is waited for: its processes are being ended.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = [folder / f"slot-{number}.lock" for number in range(slots_max)]
    numbers = list(range(slots_max))
    if left_by is not None:
        numbers.sort(key=lambda number: _read_last_holder(paths[number]) != left_by)
    for number in numbers:
        fd = os.open(paths[number], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            is_left = left_by is not None and _read_incarnation(fd) == left_by
            is_locked = _lock(fd, FREE_SECONDS_MAX if is_left else 0.0)
        except OSError:
            os.close(fd)
            raise
        if not is_locked:
            os.close(fd)
            continue
        os.set_inheritable(fd, True)
        secret_path = paths[number].with_suffix(".secret")
        return Slot(fd, number, _read_previous(fd, secret_path), secret_path)
    raise Unavailable(
        f"all {slots_max} slots in {folder} are held; end workers of this host, or allow more"
    )


def _write_secret(path: Path, holder: WorkerCredential) -> None:
    """Write a secret where only this user reads it: all of it, or what was there before."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{holder.header}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    new.replace(path)


def _read_previous(fd: int, secret_path: Path) -> WorkerCredential | None:
    """Read which incarnation held a slot last, and its secret, if that is the one left there."""
    incarnation = _read_incarnation(fd)
    if incarnation is None:
        return None
    try:
        left = read_credential(secret_path.read_text(encoding="ascii").removesuffix("\n"))
    except (FileNotFoundError, UnicodeDecodeError):
        left = None
    is_its = left is not None and left.worker_id == incarnation
    return left if is_its else WorkerCredential(incarnation, "")


def _lock(fd: int, seconds_max: float) -> bool:
    """Lock a file for ourselves; False if somebody holds it for longer than that."""
    ends_at = time.monotonic() + seconds_max
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= ends_at:
                return False
            time.sleep(LOOK_SECONDS)
        else:
            return True


def _read_last_holder(path: Path) -> str | None:
    """Read which incarnation held a slot last, without taking it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _read_incarnation(fd)
    finally:
        os.close(fd)


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
