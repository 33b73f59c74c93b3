"""What a shim leaves: processes if it was lost, a log, and its folder."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.worker.processes import resource_limits, shim_folder, watchdog
from holdfast.worker.processes.mark import mark_of
from holdfast.worker.running.regular_file import open_regular, read_regular

LOG_BYTES_MAX = 2000
REPORT_BYTES_MAX = 1 << 20

Report = TypeVar("Report")


def kill_leftovers(folder: Path, token: str, uid: int) -> bool:
    """Kill all that came of an attempt, its shim too; False if that takes more than a moment."""
    # A shim that an older version has started carries the token itself.
    entries = [watchdog.entry_of(mark_of(token)), f"{watchdog.TOKEN_NAME}={token}".encode()]
    is_clean = watchdog.sweep([], entries, uids=[uid] if uid else [])
    are_ended = [resource_limits.end_cgroup(path) for path in _list_cgroups(folder, token)]
    return is_clean and all(are_ended)


def read_report(path: Path, kind: type[Report]) -> Report | None:
    """Read what a shim has written down; None if it has not, or if its command has spoiled it."""
    with suppress(OSError, ValueError, RecursionError):  # of msgspec's, too: they are ValueErrors
        return msgspec.json.decode(read_regular(path, REPORT_BYTES_MAX), type=kind)
    return None


def read_log_tail(folder: Path) -> str:
    """Read the end of what a shim has written to its log: why it failed, if it did."""
    with suppress(OSError), open_regular(folder / shim_folder.LOG) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES_MAX))
        return file.read().decode("utf-8", "replace").strip()
    return ""


def remove_folder(folder: Path) -> None:
    """Delete the folder of a shim that has ended."""
    (folder / shim_folder.ORDER).unlink(missing_ok=True)  # first: half a folder is no shim's
    for within, names, _ in os.walk(folder):
        for name in names:  # a command may have forbidden us to look inside
            if not os.path.islink(path := os.path.join(within, name)):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _list_cgroups(folder: Path, token: str) -> set[str]:
    """List where the cgroup of a command may be: where its shim has written that it is, too."""
    own = resource_limits.find_own_cgroup()
    names = (mark_of(token), token)  # the latter by an older version
    paths = set() if own is None else {resource_limits.path_of(own, name) for name in names}
    # Not found if the command has deleted or spoiled it.
    made = read_report(folder / shim_folder.CGROUP, str)
    if made is not None and "\0" not in made:
        paths.add(made)
    return paths
