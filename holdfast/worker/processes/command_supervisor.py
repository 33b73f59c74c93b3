"""What a shim does: run one command, keep its deadline, end all of it, write down how it ended.

Standard library only, and little of it: there is one such process for every placed attempt.

Lines on `control`: `deadline T` moves the deadline either way, an instant of
`holdfast.worker.processes.clock`; `soft SECONDS` asks the command's group to end and kills it after
that time; `hard` kills now.

Output goes to a file that is kept within bounds on disk: when it takes more than its limit, the
middle is given back to the file system, and reads as zeros. Both ends stay, where they are.
"""

import ctypes
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.worker.processes import process_tree, resource_limits, shim_folder, watchdog
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.command_deadline import CommandDeadline
from holdfast.worker.processes.command_start import CommandStart, Order
from holdfast.worker.processes.command_usage import CommandUsage

# Poll counts no time in suspend: a deadline that passed there is met this long after waking up.
SLICE_SECONDS_MAX = 1.0
SLICE_SECONDS_MIN = 0.02
USAGE_SECONDS = 1.0  # a command that runs no longer has its usage in its end alone
FORKS_PER_CORE_MAX = 5000.0  # a second, threads too: a host that makes more does nothing else
PAUSE_SECONDS_MIN = 0.001
PAUSE_SECONDS_MAX = 1.0
CONTROL_BYTES_MAX = 1 << 16  # all that a pipe holds
LINE_BYTES_MAX = 100
_PR_SET_CHILD_SUBREAPER = 36
_KEEP_SIZE_PUNCH_HOLE = 3
_LIBC = ctypes.CDLL(None, use_errno=True)


class CommandSupervisor:
    """One command, from its start to the end of all that came of it."""

    def __init__(self, folder: str, order: Order, *, control: int, alive: int) -> None:
        self._folder = folder
        self._order = order
        self._control = control
        self._alive = alive
        self._unfinished_line = b""
        self._limits = resource_limits.Limits(order.memory, order.cpu)
        self._usage = CommandUsage(self._limits)
        self._enforced_by = "none"
        self._due = CommandDeadline(order.deadline)
        self._error: str | None = None
        self._started_at: float | None = None
        self._pid = 0
        self._began_at = boot_clock()
        self._status: int | None = None
        self._slice = SLICE_SECONDS_MIN
        self._output_size = 0
        # The first quarter of the limit stays; up to here, what is behind it was given back.
        self._freed_until = order.output_bytes_max // 4
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._output = os.open(f"{folder}/{shim_folder.OUTPUT}", flags, 0o600)

    def run(self) -> None:
        """Run the command to its end and write that down, once nothing of it is left."""
        try:
            self._make_cgroup()
            start = CommandStart(self._order, self._limits, self._output)
            self._pid = start.pid
            self._watch(start)
        finally:  # also if we fail, for want of disk space for example: then nothing is written
            self._end_all()
        path = f"{self._folder}/{shim_folder.EXIT}"
        shim_folder.write_json(path, self._describe_end(), is_synced=True)

    def _make_cgroup(self) -> None:
        if self._order.cgroups:
            self._limits.plan(resource_limits.find_own_cgroup(), self._order.mark)
        # Written first: whoever finds us killed shall find the cgroup.
        shim_folder.write_json(f"{self._folder}/{shim_folder.CGROUP}", self._limits.cgroup)
        self._limits.make()

    def _watch(self, start: CommandStart) -> None:
        """Keep the deadline until the command has ended or has to."""
        poller = select.poll()
        for fd in (self._control, start.pipe, os.pidfd_open(self._pid)):
            poller.register(fd, select.POLLIN)
        is_starting = True
        while True:
            poller.poll(self._patience() * 1000)
            has_ended = process_tree.has_ended(self._pid)
            if is_starting and start.is_over():
                is_starting = False
                poller.unregister(start.pipe)
                self._note_start(start)
            if has_ended:
                return
            self._read_control()  # before the deadline: we may have been stopped for long
            if self._must_end():
                self._usage.sample()
                return
            process_tree.reap_orphans(self._pid)
            self._bound_output()
            if self._usage.sample_if_due():
                self._note_usage()

    def _patience(self) -> float:
        left = self._due.at - boot_clock()
        self._slice = min(self._slice * 2, SLICE_SECONDS_MAX)
        return max(0.0, min(left, self._slice))

    def _note_start(self, start: CommandStart) -> None:
        """Write down that the command runs, or note why it cannot."""
        error, enforced_by = start.error(), start.enforced_by()
        if error is not None:
            self._due.reason, self._error = "cannot_start", error
        elif enforced_by is not None:  # else it was killed before it came to that
            self._enforced_by = enforced_by
            self._started_at = time.time()
            started = {"started_at": self._started_at, "limits": enforced_by}
            shim_folder.write_json(f"{self._folder}/{shim_folder.STARTED}", started)
            self._tell_start()

    def _tell_start(self) -> None:
        """Have the worker look, if there is one."""
        with suppress(OSError):  # filled by the command, say: then it looks by itself
            os.write(self._alive, shim_folder.BEGUN)

    def _note_usage(self) -> None:
        """Write down what the command has used so far, once it has run for a while."""
        if self._started_at is None or time.time() < self._started_at + USAGE_SECONDS:
            return
        used = {**self._usage.so_far(), "limits": self._enforced_by}
        try:
            shim_folder.write_json(f"{self._folder}/{shim_folder.USAGE}", used)
        except OSError:  # no room, or spoiled by the command: nobody needs it to run on
            return

    def _read_control(self) -> None:
        try:
            text = os.read(self._control, CONTROL_BYTES_MAX)
        except BlockingIOError:
            return
        *lines, unfinished = (self._unfinished_line + text).split(b"\n")
        self._unfinished_line = unfinished[-LINE_BYTES_MAX:]
        for line in lines:
            try:
                if self._due.obey(line.decode(), boot_clock()):
                    _send(os.killpg, self._pid, signal.SIGTERM)
            except ValueError:  # the command itself can write here: that must not end its shim
                continue

    def _must_end(self) -> bool:
        # The kernel has killed one of its processes: what is left may wait for it for ever.
        return self._due.must_end(boot_clock()) or self._limits.oom_kills() > 0

    def _bound_output(self) -> None:
        size = os.fstat(self._output).st_size
        most = self._order.output_bytes_max
        if size - self._output_size > most // 64:  # it comes fast: look again soon
            self._slice = SLICE_SECONDS_MIN
        head = most // 4
        if size < self._freed_until:  # a command wrote to `> /dev/stdout`
            self._freed_until = head
        if size - (self._freed_until - head) > most:
            size = self._free_middle(head, size - most // 2, size)
        self._output_size = size

    def _free_middle(self, start: int, end: int, size: int) -> int:
        """Give the middle of the output back to the file system; returns how long it is now."""
        place = ctypes.c_int64(start), ctypes.c_int64(end - start)
        if _LIBC.fallocate(self._output, _KEEP_SIZE_PUNCH_HOLE, *place) == 0:
            self._freed_until = end
            return size
        # A file system that cannot do that: the end goes, and the command writes on behind that.
        os.ftruncate(self._output, end - start)
        os.write(self._output, b"\n[output over %d bytes was dropped here]\n" % (end - start))
        return end - start

    def _end_all(self) -> None:
        """Kill and reap until nothing is left; for as long as that takes, since it is our duty."""
        pause = PAUSE_SECONDS_MIN
        while self._pid and not self._is_gone():
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
        uids = [self._order.uid] if self._order.uid else []
        # None of them is our descendant any more; others were given the mark since we began.
        is_young = boot_clock() < self._began_at + _count_seconds_of_numbers()
        after = os.getpid() if is_young else 0
        entries = [watchdog.entry_of(self._order.mark)]
        while not watchdog.sweep([], entries, uids=uids, after=after):
            continue  # it pauses by itself
        if self._limits.cgroup is None:
            return
        self._usage.read_cgroup()
        self._note_oom()
        if not resource_limits.end_cgroup(self._limits.cgroup):
            sys.stderr.write(f"could not remove {self._limits.cgroup}\n")

    def _is_gone(self) -> bool:
        """Kill what is left, and tell whether that was nothing."""
        cgroup = self._limits.cgroup
        if cgroup is not None:
            resource_limits.kill_cgroup(cgroup)
        if self._status is None:  # not reaped, so the number is its own
            watchdog.kill_group(self._pid)
            _send(os.kill, self._pid, signal.SIGKILL)  # it may not lead its group yet
        if self._reap():
            return cgroup is None or not resource_limits.list_pids(cgroup)
        process_tree.kill_listed(lambda: process_tree.list_tree(os.getpid()))
        return False

    def _reap(self) -> bool:
        """Reap what has ended, and tell whether nothing is left of the command's own.

        Orphans become our children, so that who has no child has no descendant at all.
        """
        for _ in range(process_tree.REAP_MAX):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                break
            if pid == self._pid:
                self._status = status
        return False

    def _note_oom(self) -> None:
        was_success = self._status is not None and os.waitstatus_to_exitcode(self._status) == 0
        if self._due.reason in (None, "soft") and not was_success and self._limits.oom_kills():
            self._due.reason = "oom"
            self._error = f"out of memory: its limit is {self._order.memory} bytes"

    def _describe_end(self) -> dict[str, object]:
        assert self._status is not None, "a command that was started has been reaped"
        code = os.waitstatus_to_exitcode(self._status)
        has_run = self._started_at is not None
        if not has_run and self._due.reason is None and code >= 0:  # it could not even report why
            self._due.reason, self._error = "cannot_start", "the command could not be started"
        return {
            "exit_code": code if code >= 0 and has_run else None,
            "signal": -code if code < 0 else None,
            "reason": self._due.reason,
            "error": self._error,
            "started_at": self._started_at,
            "ended_at": time.time(),
            "usage": self._usage.total(has_run=has_run),
            "limits": self._enforced_by,
        }


def _send(send: Callable[[int, int], None], pid: int, number: int) -> None:
    """Signal the command or its group, which must not have been reaped."""
    assert pid > 1, pid
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def main(folder: str) -> None:
    """Serve one order, if nobody has before."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would lose exit statuses
    lock = os.open(f"{folder}/{shim_folder.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # others only look, or have written the end down
    if any(os.path.exists(f"{folder}/{name}") for name in (shim_folder.EXIT, shim_folder.CGROUP)):
        return
    control = os.open(f"{folder}/{shim_folder.CONTROL}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    # Open for both: there may be no reader by now, and a later worker may become one.
    alive = os.open(f"{folder}/{shim_folder.ALIVE}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the reaper of descendants")
    with open(f"{folder}/{shim_folder.ORDER}", "rb", buffering=0) as file:
        supervisor = CommandSupervisor(folder, Order(file.read()), control=control, alive=alive)
    os.write(alive, shim_folder.READY)
    supervisor.run()
    # Before the end of file on `alive`, which has the worker look: an exit gives both back at will.
    fcntl.flock(lock, fcntl.LOCK_UN)


def _count_seconds_of_numbers() -> float:
    """Count for how long, at least, the numbers of processes do not begin anew."""
    with open("/proc/sys/kernel/pid_max", "rb", buffering=0) as file:
        numbers = int(file.read())
    return numbers / (FORKS_PER_CORE_MAX * (os.cpu_count() or 1))
