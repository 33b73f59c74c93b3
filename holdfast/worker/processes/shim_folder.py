"""The files by which a worker and a shim know of each other, and how they are written."""

import errno
import json
import os
import stat

ORDER, STARTED, EXIT, CGROUP = "order.json", "started", "exit.json", "cgroup.json"
USAGE = "usage.json"
LOCK, CONTROL, ALIVE = "lock", "control", "alive"
OUTPUT, LOG = "output.log", "shim.log"
READY = b"ready\n"  # what a shim writes to ALIVE once it holds its lock
BEGUN = b"begun\n"  # and once STARTED is there

# What a command has made of its lock; anything else is trouble of this host, and passes.
_SPOILED = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EACCES
}  # fmt: skip


def write_json(path: str, content: object, *, is_synced: bool = False) -> None:
    """Write a file of JSON in one step, so that nobody reads half of it."""
    unfinished = f"{path}.new"
    # A new file: nothing that the command has put there is written to, by whatever name it goes.
    if os.path.lexists(unfinished):
        os.unlink(unfinished)
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb", buffering=0) as file:
        text = memoryview(json.dumps(content).encode())
        while text:
            text = text[file.write(text) :]
        if is_synced:
            os.fsync(fd)
    os.rename(unfinished, path)
    if is_synced:
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(folder)
        os.close(folder)


def open_lock(folder: str, flags: int = 0) -> int | None:
    """Open the lock of a folder; None if it is gone, or has become something else."""
    flags |= os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(f"{folder}/{LOCK}", flags, 0o600)
    except OSError as error:
        if error.errno in _SPOILED:
            return None
        raise
    if stat.S_ISREG(os.fstat(lock).st_mode):
        return lock
    os.close(lock)
    return None
