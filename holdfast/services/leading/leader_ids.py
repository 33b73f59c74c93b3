"""The name of a leader says which process it is, so that its own host can see that it has died.

No safety hangs on it: whatever a leader reads or writes holds its epoch, and the next term waits
for that and begins another. A term lasts only so that servers do not take it from each other, and
one whose process is gone cannot mind.
"""

import os
from pathlib import Path
from uuid import uuid4

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_STATE, _START = 0, 19  # fields of /proc/PID/stat after the program's name
_ENDED = (b"Z", b"X")


def make_leader_id() -> str:
    """Name this process as a leader, once for each time that it begins to serve."""
    pid = os.getpid()
    fields = _read_stat(pid)
    start = None if fields is None else fields[_START].decode()
    return ":".join([uuid4().hex, *_where(), str(pid), start or ""])


def is_gone(leader_id: str) -> bool:
    """Tell whether a leader has run on this host and is known to have ended."""
    _, *where, pid, start = leader_id.split(":") if leader_id.count(":") == 4 else ("", "", "")
    if not start or where != _where() or not all(where):
        return False
    try:
        os.kill(int(pid), 0)  # this also tells of processes that /proc hides
    except ProcessLookupError:
        return True
    except PermissionError:  # it is another user's
        return False
    fields = _read_stat(int(pid))
    return fields is not None and (fields[_STATE] in _ENDED or fields[_START].decode() != start)


def _where() -> list[str]:
    """Name this boot of this host, and where its processes have their numbers."""
    try:
        return [_BOOT.read_text().strip(), str(_NAMESPACE.stat().st_ino)]
    except OSError:  # no Linux
        return ["", ""]


def _read_stat(pid: int) -> list[bytes] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return text[text.rindex(b")") + 2 :].split()
