"""Hold a command to its memory and cpu: by cgroups of version 1, 2 or both, else by rlimit.

A command gets groups of its own below the group that we are in ourselves, so what limits us limits
it too. Version 2 lends controllers only to groups below one that holds no process: either that is
so (a delegated group whose worker sits in a subgroup, or the root), or its group counts and kills
but limits nothing, and memory is limited by rlimit: per process, and by address space.
"""

import os
import resource
import time
from collections.abc import Iterable
from functools import partial

from holdfast.worker.processes.process_tree import kill_listed

PREFIX = "holdfast-"
UNIFIED = "unified"
CONTROLLERS = ("memory", "cpu")
CPU_PERIOD_US = 100_000
CPU_QUOTA_US_MIN = 1_000  # the kernel takes no less
REMOVE_TURNS_MAX = 50
REMOVE_PAUSE_SECONDS = 0.01


def find_places(mounts: str, memberships: str) -> dict[str, str]:
    """Find the folders of our own groups: of "memory" and "cpu" in version 1, and the unified one.

    Takes the texts of /proc/self/mountinfo and /proc/self/cgroup.
    """
    paths = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update({name or UNIFIED: path for name in controllers.split(",")})
    places: dict[str, str] = {}
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        if not kind.startswith("cgroup"):
            continue
        root, point = mount.split(" ")[3:5]
        filesystem, _, options = kind.split(" ")
        names = {UNIFIED} if filesystem == "cgroup2" else {*CONTROLLERS} & {*options.split(",")}
        for name in names & paths.keys():
            folder = _folder(point, root, paths[name])
            if folder is not None:
                places.setdefault(name, folder)
    return places


def find_own_places() -> dict[str, str]:
    """Find the folders of our own groups on this host; none where there are no cgroups."""
    return find_places(_read("/proc/self/mountinfo"), _read("/proc/self/cgroup"))


def path_of(place: str, name: str) -> str:
    """Tell where the group of a command is, below a group of ours."""
    return f"{place}/{PREFIX}{name}"


class Group:
    """One cgroup of a command, in one hierarchy."""

    def __init__(self, path: str, kind: str, controllers: Iterable[str]) -> None:
        self.path = path
        self.kind = kind
        self.controllers = set(controllers)

    def limit(self, memory: int, cpu: float) -> None:
        """Set the limits of the group; zero means none."""
        if memory and "memory" in self.controllers:
            self._limit_memory(memory)
        if cpu and "cpu" in self.controllers:
            quota = max(int(cpu * CPU_PERIOD_US), CPU_QUOTA_US_MIN)
            if self.kind == "cgroup2":
                self._write("cpu.max", f"{quota} {CPU_PERIOD_US}")
            else:
                self._write("cpu.cfs_period_us", str(CPU_PERIOD_US))
                self._write("cpu.cfs_quota_us", str(quota))

    def enter(self) -> bool:
        """Move this process into the group; False if it may not."""
        return _try_write(f"{self.path}/cgroup.procs", "0")

    def oom_kills(self) -> int:
        """Count the processes that the kernel has killed here because memory ran out."""
        name = "memory.events" if self.kind == "cgroup2" else "memory.oom_control"
        for line in _read(f"{self.path}/{name}").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def memory_peak(self) -> int:
        """Read the most memory that was held here at once; zero if the kernel does not say."""
        name = "memory.peak" if self.kind == "cgroup2" else "memory.max_usage_in_bytes"
        return int(_read(f"{self.path}/{name}") or 0)

    def _limit_memory(self, memory: int) -> None:
        if self.kind == "cgroup2":
            self._write("memory.max", str(memory))
            _try_write(f"{self.path}/memory.swap.max", "0")
            _try_write(f"{self.path}/memory.oom.group", "1")  # half a command is of no use
        else:
            self._write("memory.limit_in_bytes", str(memory))
            _try_write(f"{self.path}/memory.memsw.limit_in_bytes", str(memory))

    def _write(self, name: str, text: str) -> None:
        _write(f"{self.path}/{name}", text)


class Limits:
    """What one command may use, and the groups that see to it."""

    def __init__(self, memory: int = 0, cpu: float = 0.0) -> None:
        self._memory = memory
        self._cpu = cpu
        self.groups: list[Group] = []

    def plan(self, places: dict[str, str], name: str) -> None:
        """Choose the groups of a command, without making them."""
        if "memory" in places:
            self.groups.append(Group(path_of(places["memory"], name), "cgroup1", ["memory"]))
        if "cpu" in places and self._cpu:
            self.groups.append(Group(path_of(places["cpu"], name), "cgroup1", ["cpu"]))
        if UNIFIED in places:
            parent, controllers = _choose_parent(places[UNIFIED])
            self.groups.append(Group(path_of(parent, name), "cgroup2", controllers))

    def make(self) -> None:
        """Make the groups that were planned, and forget those that cannot be."""
        for group in list(self.groups):
            try:
                os.mkdir(group.path)
                group.limit(self._memory, self._cpu)
            except OSError:
                self.groups.remove(group)
                end_groups([group.path])

    def enter(self) -> str:
        """Put this process under the limits and say what enforces them."""
        entered = [group for group in self.groups if group.enter()]
        memory = _kind_of("memory", entered) if self._memory else "none"
        if self._memory and memory == "none":
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            most = self._memory if hard == resource.RLIM_INFINITY else min(self._memory, hard)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            memory = "rlimit"
        if not self._cpu:
            return memory
        cpu = _kind_of("cpu", entered)
        if not self._memory:
            return cpu
        return memory if cpu != "none" else f"{memory}, cpu not limited"

    def oom_kills(self) -> int:
        """Count the processes that were killed because memory ran out, where that is counted."""
        return sum(group.oom_kills() for group in self.groups if "memory" in group.controllers)

    def memory_peak(self) -> int:
        """Read the most memory that was held at once; zero if there is no group to ask."""
        peaks = (group.memory_peak() for group in self.groups if "memory" in group.controllers)
        return max(peaks, default=0)

    def list_pids(self) -> set[int] | None:
        """List the processes in the groups; None if there is no group."""
        return list_pids(group.path for group in self.groups) if self.groups else None


def list_pids(paths: Iterable[str]) -> set[int]:
    """List the processes in groups and in the groups below them."""
    return {
        int(pid)
        for path in paths
        for folder, _, _ in os.walk(path)
        for pid in _read(f"{folder}/cgroup.procs").split()
    }


def kill_groups(paths: Iterable[str]) -> None:
    """Kill what is in groups of ours: at once where the kernel can, else one by one."""
    for path in _ours(paths):
        if not _try_write(f"{path}/cgroup.kill", "1"):
            kill_listed(partial(list_pids, [path]))


def end_groups(paths: Iterable[str]) -> bool:
    """Kill what is in groups of ours and remove them; False if that takes too long."""
    left = _ours(paths)
    for _ in range(REMOVE_TURNS_MAX):
        kill_groups(left)
        left = [path for path in left if not _remove(path)]
        if not left:
            return True
        time.sleep(REMOVE_PAUSE_SECONDS)
    return False


def _ours(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if os.path.basename(path).startswith(PREFIX)]


def _remove(path: str) -> bool:
    try:
        for folder, _, _ in os.walk(path, topdown=False):  # a command may make groups of its own
            os.rmdir(folder)
    except OSError:
        return not os.path.exists(path)
    return True


def _folder(point: str, root: str, path: str) -> str | None:
    """Find a group below a mount that may show a part of the hierarchy only."""
    root = root.rstrip("/")
    if ".." in path or not f"{path}/".startswith(f"{root}/"):
        return None
    return (point + path[len(root) :]).rstrip("/")


def _choose_parent(own: str) -> tuple[str, list[str]]:
    """Choose the group of version 2 below which a command's group gets controllers."""
    parents = [own]
    if _is_delegated(os.path.dirname(own)):
        parents.append(os.path.dirname(own))
    for parent in parents:
        lent = _lend(parent)
        if "memory" in lent:
            return parent, lent
    return own, _lend(own)


def _lend(parent: str) -> list[str]:
    """Have a group lend its controllers to those below; returns the ones that it lends."""
    lent = _read(f"{parent}/cgroup.subtree_control").split()
    there = _read(f"{parent}/cgroup.controllers").split()
    for name in CONTROLLERS:
        if name in there and name not in lent:
            if not _try_write(f"{parent}/cgroup.subtree_control", f"+{name}"):
                break  # it holds processes: with cpu alone, no process could enter a group below
            lent.append(name)
    return [name for name in CONTROLLERS if name in lent]


def _is_delegated(folder: str) -> bool:
    """Tell whether systemd has left a group to its service: others are not ours to use."""
    try:
        return os.getxattr(folder, "user.delegate") == b"1"
    except OSError:
        return False


def _kind_of(controller: str, groups: Iterable[Group]) -> str:
    return next((group.kind for group in groups if controller in group.controllers), "none")


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # not this kernel's, or gone
        return ""


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
