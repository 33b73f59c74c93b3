"""The files by which a worker and a shim know of each other, and how they are written."""

import json
import os

ORDER, STARTED, EXIT, CGROUP = "order.json", "started", "exit.json", "cgroup.json"
LOCK, CONTROL, ALIVE = "lock", "control", "alive"
OUTPUT, LOG = "output.log", "shim.log"
READY = b"ready\n"  # what a shim writes to ALIVE once it holds its lock


def write_json(path: str, content: object, *, is_synced: bool = False) -> None:
    """Write a file of JSON in one step, so that nobody reads half of it."""
    unfinished = f"{path}.new"
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w") as file:
        json.dump(content, file)
        if is_synced:
            file.flush()
            os.fsync(fd)
    os.rename(unfinished, path)
    if is_synced:
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(folder)
        os.close(folder)
