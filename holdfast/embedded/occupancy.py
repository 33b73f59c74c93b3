"""One `holdfast up` per folder: who has it, and where it serves, for whoever comes second.

The lock is a POSIX lock: no child inherits it, and the kernel tells whose it is. Within the process
that holds it nobody else may open the file: closing it again would give the lock up.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.embedded.errors import PostgresUnavailable
from holdfast.embedded.folder import Folder
from holdfast.embedded.locks import find_holder, open_lock

NOTE_BYTES_MAX = 1000


class Occupied(PostgresUnavailable):
    """Another `holdfast up` has the folder."""


@contextmanager
def occupy(path: Path) -> Iterator[Callable[[str], None]]:
    """Have a folder for the time of a block; yields how to note where it is served from."""
    folder = Folder(path.resolve())
    folder.prepare()
    file = folder.lock("up")
    descriptor = open_lock(file)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _occupied(folder, os.pread(descriptor, NOTE_BYTES_MAX, 0)) from error
        os.truncate(descriptor, 0)
        yield lambda url: _write(descriptor, url)
    finally:
        os.close(descriptor)


def _write(descriptor: int, url: str) -> None:
    os.pwrite(descriptor, url.encode(), 0)


def _occupied(folder: Folder, note: bytes) -> Occupied:
    pid, url = find_holder(folder.lock("up")), note.decode(errors="replace")
    who = f"pid {pid}" if pid else "a process that cannot be seen from here"
    where = f", serving at {url}" if url else ""
    stop = f"end it with Ctrl-C or `kill {pid}`" if pid else "end it"
    return Occupied(
        f"Another `holdfast up` has the folder {folder.path}: {who}{where}.",
        f"Use that one (more workers: `holdfast worker`), {stop}, or name another folder with "
        "--data-dir and another port with --port.",
    )
