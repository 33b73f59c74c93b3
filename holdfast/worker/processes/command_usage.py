"""What a command uses: counted by its cgroup where that can, else sampled from /proc."""

import os
import resource

from holdfast.worker.processes import process_tree, resource_limits
from holdfast.worker.processes.clock import boot_clock

SAMPLE_SECONDS_MIN = 0.04
SAMPLE_SECONDS_MAX = 5.0  # without a cgroup that counts, a sample reads all of /proc


class CommandUsage:
    """The most that a command, with all that came of it, has held at once."""

    def __init__(self, limits: resource_limits.Limits) -> None:
        self._limits = limits
        self._interval = SAMPLE_SECONDS_MIN
        self._due_at = boot_clock() + SAMPLE_SECONDS_MIN
        self._memory_counted = 0
        self._memory_sampled = 0
        self._processes_max = 0
        self._cpu_seconds = 0.0

    def sample_if_due(self) -> bool:
        """Take a sample, at growing intervals; tells whether it did."""
        if boot_clock() < self._due_at:
            return False
        self.sample()
        self._due_at = boot_clock() + self._interval
        self._interval = min(self._interval * 2, SAMPLE_SECONDS_MAX)
        return True

    def sample(self) -> None:
        """Count the processes, and their memory and cpu unless the cgroup does."""
        cgroup = self._limits.cgroup
        if cgroup is not None and (peak := self._limits.memory_peak()):
            processes = len(resource_limits.list_pids(cgroup))
            self._memory_sampled = peak
            cpu = self._limits.cpu_seconds()
        else:
            held = process_tree.list_tree(os.getpid()).values()
            memory = sum(each for each, _ in held)
            self._memory_sampled = max(self._memory_sampled, memory)
            processes = len(held)
            cpu = _reaped_cpu_seconds() + sum(seconds for _, seconds in held)
        self._processes_max = max(self._processes_max, processes)
        # What ends between two looks is missed, and none of it is given back.
        self._cpu_seconds = max(self._cpu_seconds, cpu)

    def so_far(self) -> dict[str, float]:
        """Say what the last samples have found, while the command runs."""
        return {
            "cpu_seconds": round(self._cpu_seconds, 3),
            "memory_peak_bytes": self._memory_sampled,
            "processes_max": self._processes_max,
        }

    def read_cgroup(self) -> None:
        """Read what the cgroup has counted, before it is removed."""
        self._memory_counted = self._limits.memory_peak()

    def total(self, *, has_run: bool) -> dict[str, float]:
        """Sum up, once all processes have been reaped, by us or by each other."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        largest = used.ru_maxrss * 1024  # of a single process, but no sample missed it
        return {
            "cpu_seconds": _reaped_cpu_seconds(),
            "memory_peak_bytes": self._memory_counted or max(self._memory_sampled, largest),
            "processes_max": max(self._processes_max, int(has_run)),
        }


def _reaped_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
