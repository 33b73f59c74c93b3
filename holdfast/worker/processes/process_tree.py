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
_STATE, _PARENT, _SESSION, _PAGES = 0, 1, 3, 21  # fields of /proc/PID/stat after the program's name
_TICKS = slice(11, 15)  # its own, and those of children that it has reaped
HAS_CHILDREN_FILES = os.path.exists("/proc/thread-self/children")


def list_tree(
    top: int, *, has_children_files: bool = HAS_CHILDREN_FILES
) -> dict[int, tuple[int, float]]:
    """List the living processes below one: the bytes each holds, the seconds of cpu it has had.

    Where the kernel says who the children of a thread are, nothing else of /proc is read: hundreds
    of shims that look at all processes would have the host do little else. One that loses its
    parent this moment may be missed.
    """
    if not has_children_files:
        return _Processes().below(top)
    found: dict[int, tuple[int, float]] = {}
    seen = {top}
    todo = [top]
    while todo:
        below = [pid for pid in _list_children(todo.pop()) if pid not in seen]
        seen.update(below)
        todo += below
        for pid in below:
            fields = _read_stat(str(pid))
            if fields is not None and _lives(fields):
                found[pid] = _held(fields)
    return found


def list_sessions(leaders: Collection[int]) -> dict[int, dict[int, tuple[int, float]]]:
    """List the living processes of several sessions, and below them, as `list_tree` does."""
    seen = _Processes()
    return {leader: seen.of_session(leader) for leader in leaders}


class _Processes:
    """All processes that live, as one look at /proc has found them."""

    def __init__(self) -> None:
        self._children: dict[int, list[int]] = {}
        self._sessions: dict[int, list[int]] = {}
        self._held: dict[int, tuple[int, float]] = {}
        for name in os.listdir("/proc"):
            fields = _read_stat(name) if name.isdigit() else None
            if fields is not None and _lives(fields):
                self._children.setdefault(int(fields[_PARENT]), []).append(int(name))
                self._sessions.setdefault(int(fields[_SESSION]), []).append(int(name))
                self._held[int(name)] = _held(fields)

    def below(self, top: int) -> dict[int, tuple[int, float]]:
        """List what is below a process."""
        found = self._walk(self._children.get(top, ()))
        found.pop(top, None)  # numbers may have changed hands while we read
        return found

    def of_session(self, leader: int) -> dict[int, tuple[int, float]]:
        """List what is in a session, and below that."""
        return self._walk(self._sessions.get(leader, ()))

    def _walk(self, first: Collection[int]) -> dict[int, tuple[int, float]]:
        found: dict[int, tuple[int, float]] = {}
        todo = list(first)
        while todo:
            pid = todo.pop()
            if pid not in found:
                found[pid] = self._held[pid]
                todo += self._children.get(pid, ())
        return found


def read_cpu_seconds(pid: int) -> float | None:
    """Read the seconds of cpu that a process has had, and those it has waited for; or None.

    Of one that has ended, too, until it is reaped.
    """
    fields = _read_stat(str(pid))
    return None if fields is None else _cpu_seconds(fields)


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


def _list_children(pid: int) -> list[int]:
    """List the children of a process: each of its threads has its own."""
    folder = f"/proc/{pid}/task"
    children: list[int] = []
    try:
        for thread in os.listdir(folder):
            with open(f"{folder}/{thread}/children", "rb", buffering=0) as file:
                children += map(int, file.readall().split())
    except OSError:  # gone
        return children
    return children


def _lives(fields: list[bytes]) -> bool:
    return fields[_STATE] not in (b"Z", b"X")


def _held(fields: list[bytes]) -> tuple[int, float]:
    return int(fields[_PAGES]) * _PAGE_BYTES, _cpu_seconds(fields)


def _cpu_seconds(fields: list[bytes]) -> float:
    return sum(map(int, fields[_TICKS])) / _TICKS_PER_SECOND


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
