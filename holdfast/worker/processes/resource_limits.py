"""Hold a command to its memory and cpu: by a cgroup of version 2, else by rlimit.

A command gets a cgroup of its own below the one that we are in, so what limits us limits it too.
Controllers are lent only to groups below one that holds no process: either that is so (a delegated
group whose worker sits in a subgroup, or the root), or the group of the command serves to kill it
but limits nothing, and memory is limited by rlimit: per process, and by address space.
"""

import os
import resource
import time
from collections.abc import Collection
from functools import partial

from holdfast.worker.processes.process_tree import kill_listed

PREFIX = "holdfast-"
CONTROLLERS = ("memory", "cpu")
CPU_PERIOD_US = 100_000
CPU_QUOTA_US_MIN = 1_000  # the kernel takes no less
READ_BYTES = 1 << 16
REMOVE_TURNS_MAX = 50
REMOVE_PAUSE_SECONDS = 0.01


def find_own_cgroup() -> str | None:
    """Find the folder of the cgroup that we are in; None where there is none of version 2."""
    return find_cgroup(_read("/proc/self/mountinfo"), _read("/proc/self/cgroup"))


def find_cgroup(mounts: str, memberships: str) -> str | None:
    """Find our folder in the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    path = next((line[3:] for line in memberships.splitlines() if line.startswith("0::")), None)
    if path is None or ".." in path:
        return None
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            root, point = mount.split(" ")[3:5]  # a mount may show a part of the hierarchy only
            root = root.rstrip("/")
            if f"{path}/".startswith(f"{root}/"):
                return (point + path[len(root) :]).rstrip("/")
    return None


def path_of(parent: str, name: str) -> str:
    """Tell where the cgroup of a command is, below another one."""
    return f"{parent}/{PREFIX}{name}"


class Limits:
    """What one command may use, and its cgroup (the path of it), where it can have one."""

    def __init__(self, memory: int = 0, cpu: float = 0.0) -> None:
        self._memory = memory
        self._cpu = cpu
        self._controllers: list[str] = []
        self.cgroup: str | None = None

    def plan(self, own: str | None, name: str) -> None:
        """Choose the cgroup of a command, without making it, from the one that we are in."""
        if own is not None:
            parent, lent = _choose_parent(own)
            self._controllers = [*lent]
            self.cgroup = path_of(parent, name)

    def make(self) -> None:
        """Make the cgroup that was planned and set its limits, or do without."""
        if self.cgroup is None:
            return
        try:
            os.mkdir(self.cgroup)
            set_limits(self.cgroup, self._controllers, memory=self._memory, cpu=self._cpu)
        except OSError:
            end_cgroup(self.cgroup)
            self.cgroup, self._controllers = None, []

    def open(self) -> int | None:
        """Open the cgroup, for a process to be born there: to move one takes the kernel long."""
        if self.cgroup is None:
            return None
        try:
            return os.open(self.cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None

    def enter(self, *, is_there: bool = False) -> str:
        """Put this process under the limits and say what enforces them.

        One that `is_there` was born in the cgroup.
        """
        has_entered = is_there or (
            self.cgroup is not None and _try_write(f"{self.cgroup}/cgroup.procs", "0")
        )
        held_by = self._controllers if has_entered else []
        if not self._memory:
            return "cgroup2" if self._cpu and "cpu" in held_by else "none"
        if "memory" not in held_by:
            _limit_address_space(self._memory)
        enforced = "cgroup2" if "memory" in held_by else "rlimit"
        return f"{enforced}, cpu not limited" if self._cpu and "cpu" not in held_by else enforced

    def oom_kills(self) -> int:
        """Count the processes that were killed because memory ran out, where that is counted."""
        for line in self._read("memory.events").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def memory_peak(self) -> int:
        """Read the most memory that was held at once; zero where that is not counted."""
        return int(self._read("memory.peak") or 0)

    def cpu_seconds(self) -> float:
        """Read how much of the cpu was used; zero where that is not counted."""
        for line in self._read("cpu.stat").splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        return 0.0

    def _read(self, name: str) -> str:
        return "" if self.cgroup is None else _read(f"{self.cgroup}/{name}")


def set_limits(
    cgroup: str, controllers: Collection[str], *, memory: int = 0, cpu: float = 0.0
) -> None:
    """Write the limits that the controllers of a cgroup can enforce; zero means none."""
    if memory and "memory" in controllers:
        _write(f"{cgroup}/memory.max", str(memory))
        _try_write(f"{cgroup}/memory.swap.max", "0")
        _try_write(f"{cgroup}/memory.oom.group", "1")  # half a command is of no use
    if cpu and "cpu" in controllers:
        quota = max(int(cpu * CPU_PERIOD_US), CPU_QUOTA_US_MIN)
        _write(f"{cgroup}/cpu.max", f"{quota} {CPU_PERIOD_US}")


def list_pids(cgroup: str) -> set[int]:
    """List the processes in a cgroup and in those below it."""
    return {
        int(pid)
        for folder, _, _ in os.walk(cgroup)
        for pid in _read(f"{folder}/cgroup.procs").split()
    }


def kill_cgroup(cgroup: str) -> None:
    """Kill what is in a cgroup of ours: at once where the kernel can, else one by one."""
    if _is_ours(cgroup) and not _try_write(f"{cgroup}/cgroup.kill", "1"):
        kill_listed(partial(list_pids, cgroup))


def end_cgroup(cgroup: str) -> bool:
    """Kill what is in a cgroup of ours and remove it; False if that takes too long."""
    if not _is_ours(cgroup):
        return True
    for _ in range(REMOVE_TURNS_MAX):
        kill_cgroup(cgroup)
        if _remove(cgroup):
            return True
        time.sleep(REMOVE_PAUSE_SECONDS)
    return False


def _is_ours(cgroup: str) -> bool:
    return os.path.basename(cgroup).startswith(PREFIX)


def _remove(cgroup: str) -> bool:
    try:
        for folder, _, _ in os.walk(cgroup, topdown=False):  # a command may make groups of its own
            os.rmdir(folder)
    except OSError:
        return not os.path.exists(cgroup)
    return True


def _choose_parent(own: str) -> tuple[str, list[str]]:
    """Choose the cgroup below which a command's gets controllers, and say which."""
    lent = _lend(own)
    above = os.path.dirname(own)
    if "memory" not in lent and _is_delegated(above) and "memory" in (more := _lend(above)):
        return above, more
    return own, lent


def _lend(parent: str) -> list[str]:
    """Have a cgroup lend its controllers to those below; returns the ones that it lends."""
    lent = _read(f"{parent}/cgroup.subtree_control").split()
    there = _read(f"{parent}/cgroup.controllers").split()
    for name in CONTROLLERS:
        if name in there and name not in lent:
            if not _try_write(f"{parent}/cgroup.subtree_control", f"+{name}"):
                break  # it holds processes: with cpu alone, no process could enter a group below
            lent.append(name)
    return [name for name in CONTROLLERS if name in lent]


def _is_delegated(folder: str) -> bool:
    """Tell whether systemd has left a cgroup to its service: others are not ours to use."""
    try:
        return os.getxattr(folder, "user.delegate") == b"1"
    except OSError:
        return False


def _limit_address_space(memory: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not this kernel's, or gone
        return ""
    try:
        text = b""
        while piece := os.read(fd, READ_BYTES):
            text += piece
        return os.fsdecode(text)
    except OSError:
        return ""
    finally:
        os.close(fd)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # never made by us: the kernel has it or not
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _try_write(path: str, text: str) -> bool:
    try:
        _write(path, text)
    except OSError:
        return False
    return True
