"""What an earlier process of this worker left on disk: attempts to take over, and dead folders."""

import errno
import fcntl
import logging
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.errors import Invalid
from holdfast.worker.placed.attempt import PlacedAttempt, TakeoverRecord
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.clock import boot_clock

log = logging.getLogger("holdfast.placed")


class Leftover(NamedTuple):
    """Attempts that run, have ended or were lost; `is_all` unless something else may still run."""

    attempts: list[PlacedAttempt]
    is_all: bool


def find_leftover(folder: Path) -> Leftover:
    """Look through the folders of attempts; those that nobody can use any more are removed."""
    attempts: list[PlacedAttempt] = []
    is_all = True
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            shim = Shim.adopt(path)
            record = msgspec.convert(shim.note, TakeoverRecord)
        except (Invalid, msgspec.ValidationError) as error:
            if _has_shim(path):  # it keeps its last deadline, which is before the lease's end
                log.error("%s cannot be taken over, and is left to its shim: %s", path, error)
                is_all = False
            else:
                shutil.rmtree(path, ignore_errors=True)
            continue
        # No shim was ever given a later end than that.
        attempt = PlacedAttempt(record, path, boot_clock() + record.job.lease)
        attempt.shim = shim
        attempt.state = "RUNNING" if shim.has_started() else "ASSIGNED"
        attempts.append(attempt)
    return Leftover(attempts, is_all)


def _has_shim(folder: Path) -> bool:
    """Tell whether a shim may hold the lock of a folder, whatever else is in there."""
    lock = shim_folder.open_lock(str(folder))
    if lock is None:
        # Spoiled by its command, which may still run: only where there is none, nobody is there.
        try:
            os.lstat(folder / shim_folder.LOCK)
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
