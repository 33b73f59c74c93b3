"""The processes below one of ours, as /proc shows them: list, kill and reap them.

The shim makes itself the reaper of its descendants, so a process that forks twice and takes a
session of its own comes back to it as a child. No number is killed that may be a stranger's by now.
"""

import os
import signal
from collections.abc import Callable, Collection

KILL_MAX = 256  # in one pass: each takes a descriptor
REAP_MAX = 10_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _PAGES = 0, 1, 21  # fields of /proc/PID/stat after the program's name
_TICKS = slice(11, 15)  # its own, and those of children that it has reaped


def list_tree(top: int) -> dict[int, tuple[int, float]]:
    """List the living processes below one: the bytes each holds, the seconds of cpu it has had."""
    children: dict[int, list[int]] = {}
    held: dict[int, tuple[int, float]] = {}
    for name in os.listdir("/proc"):
        fields = _read_stat(name) if name.isdigit() else None
        if fields is not None and fields[_STATE] not in (b"Z", b"X"):
            children.setdefault(int(fields[_PARENT]), []).append(int(name))
            seconds = sum(map(int, fields[_TICKS])) / _TICKS_PER_SECOND
            held[int(name)] = int(fields[_PAGES]) * _PAGE_BYTES, seconds
    below: dict[int, tuple[int, float]] = {}
    todo = list(children.get(top, ()))
    while todo:
        pid = todo.pop()
        if pid not in below and pid != top:  # numbers may have changed hands while we read
            below[pid] = held[pid]
            todo += children.get(pid, ())
    return below


def kill_listed(list_pids: Callable[[], Collection[int]]) -> int:
    """Kill processes that are listed before and after a handle on them was had; count them."""
    pidfds: dict[int, int] = {}
    try:
        for pid in list_pids():
            if len(pidfds) == KILL_MAX:
                break
            if pid > 1 and pid != os.getpid():
                _open(pid, pidfds)
        still = list_pids() if pidfds else ()
        return sum(_kill(pidfd) for pid, pidfd in pidfds.items() if pid in still)
    finally:
        for pidfd in pidfds.values():
            os.close(pidfd)


def has_ended(child: int) -> bool:
    """Tell whether a child has ended, without reaping it: until then its number is its own."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap_orphans(child: int) -> None:
    """Reap what has ended, up to the moment that the one child which matters has ended itself."""
    for _ in range(REAP_MAX):
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == child:
            return
        os.waitpid(ended.si_pid, 0)


def _read_stat(name: str) -> list[bytes] | None:
    try:
        with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
            text = file.read()
    except OSError:  # gone
        return None
    return text[text.rindex(b")") + 2 :].split()  # a program's name may hold anything


def _open(pid: int, pidfds: dict[int, int]) -> None:
    try:
        pidfds[pid] = os.pidfd_open(pid)
    except OSError:  # gone
        return


def _kill(pidfd: int) -> int:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return 0
    return 1
