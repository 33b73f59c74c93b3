"""The shim's duty: run one command, keep its deadline, end all of it, write down how it ended.

Standard library only, and little of it: there is one such process for every placed attempt.

Lines on `control`: `deadline T` moves the deadline either way, an instant of
`holdfast.worker.processes.clock`; `soft SECONDS` asks the command's group to end and kills it after
that time; `hard` kills now.

Output goes to a file that is kept within bounds on disk: when it is over its limit, the first half
of the limit stays, the rest is dropped, and the command writes on behind that.
"""

import ctypes
import fcntl
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable

from holdfast.worker.processes import process_tree, resource_limits, watchdog
from holdfast.worker.processes.clock import boot_clock

ORDER, STARTED, EXIT, GROUPS = "order.json", "started", "exit.json", "groups.json"
LOCK, CONTROL, ALIVE = "lock", "control", "alive"
OUTPUT, LOG = "output.log", "shim.log"
READY = b"ready\n"
# Poll counts no time in suspend: a deadline that passed there is met this long after waking up.
SLICE_SECONDS_MAX = 1.0
SLICE_SECONDS_MIN = 0.02
SAMPLE_SECONDS_MAX = 5.0  # without cgroups a sample reads all of /proc
PAUSE_SECONDS_MIN = 0.001
PAUSE_SECONDS_MAX = 1.0
CONTROL_BYTES_MAX = 1 << 20
LINE_BYTES_MAX = 100
REPORT_BYTES_MAX = 4096
NEVER = float("inf")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_FAULT = b"!"  # what stands before it is what enforces the limits


class Order:
    """What the worker wants run."""

    def __init__(self, text: bytes) -> None:
        fields = json.loads(text)
        self.argv: list[str] = fields["argv"]
        self.cwd: str = fields["cwd"]
        self.token: str = fields["token"]
        self.environment: dict[str, str] = {
            **fields["environment"],
            watchdog.TOKEN_NAME: self.token,
        }
        self.deadline: float = fields["deadline"]
        self.memory: int = fields["memory"]
        self.cpu: float = fields["cpu"]
        self.output_bytes_max: int = fields["output_bytes_max"]
        self.cgroups: bool = fields["cgroups"]


class CommandSupervisor:
    """One command, from its start to the end of all that came of it."""

    def __init__(self, folder: str, order: Order, control: int) -> None:
        self._folder = folder
        self._order = order
        self._control = control
        self._rest = b""
        self._limits = resource_limits.Limits(order.memory, order.cpu)
        self._said = "none"  # what enforces the limits
        self._deadline = order.deadline
        self._soft_ends = NEVER
        self._reason: str | None = None
        self._error: str | None = None
        self._started_at: float | None = None
        self._pid = 0
        self._heard = -1  # the pipe on which the command says what hinders it, if anything does
        self._report = b""
        self._status: int | None = None
        self._slice = SLICE_SECONDS_MIN
        self._output_size = 0
        self._sample_every = SLICE_SECONDS_MIN
        self._sample_due = 0.0
        self._memory_peak = 0
        self._processes_max = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._output = os.open(f"{folder}/{OUTPUT}", flags, 0o600)

    def run(self) -> None:
        """Run the command to its end and write that down, once nothing of it is left."""
        try:
            self._make_groups()
            self._start()
            self._watch()
        finally:  # also if we fail, for want of disk space for example: then nothing is written
            self._end_all()
        write(f"{self._folder}/{EXIT}", self._tell_end(), is_synced=True)

    def _make_groups(self) -> None:
        if self._order.cgroups:
            self._limits.plan(resource_limits.find_own_places(), self._order.token)
        # Written first: whoever finds us killed shall find the groups.
        paths = [group.path for group in self._limits.groups]
        write(f"{self._folder}/{GROUPS}", paths)
        self._limits.make()

    def _start(self) -> None:
        self._heard, said = os.pipe()
        os.set_blocking(self._heard, False)
        shim = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _become(self._order, self._limits, shim=shim, output=self._output, said=said)
            finally:
                os._exit(127)
        os.close(said)

    def _watch(self) -> None:
        """Keep the deadline until the command has ended or has to."""
        poller = select.poll()
        for fd in (self._control, self._heard, os.pidfd_open(self._pid)):
            poller.register(fd, select.POLLIN)
        while True:
            poller.poll(self._patience() * 1000)
            is_over = process_tree.has_ended(self._pid)
            if self._heard >= 0 and self._listen():
                poller.unregister(self._heard)
                os.close(self._heard)
                self._heard = -1
            if is_over:
                return
            self._obey()  # before the deadline is looked at: we may have been stopped for long
            if self._must_end():
                self._sample()
                return
            process_tree.reap_orphans(self._pid)
            self._bound_output()
            if boot_clock() >= self._sample_due:
                self._sample()

    def _patience(self) -> float:
        left = min(self._deadline, self._soft_ends) - boot_clock()
        self._slice = min(self._slice * 2, SLICE_SECONDS_MAX)
        return max(0.0, min(left, self._slice))

    def _listen(self) -> bool:
        """Hear what the new process has to say; True once it is the command, or never will be."""
        try:
            while words := os.read(self._heard, REPORT_BYTES_MAX):
                self._report += words
        except BlockingIOError:
            return False
        enforced, fault, reason = self._report.partition(_FAULT)
        if fault:
            self._reason, self._error = "cannot_start", reason.decode("utf-8", "replace")
        elif enforced:  # else it was killed before it came to that
            self._said = enforced.decode()
            self._started_at = time.time()
            started = {"started_at": self._started_at, "limits": self._said}
            write(f"{self._folder}/{STARTED}", started)
        return True

    def _obey(self) -> None:
        try:
            text = os.read(self._control, CONTROL_BYTES_MAX)
        except BlockingIOError:
            return
        *lines, rest = (self._rest + text).split(b"\n")
        self._rest = rest[-LINE_BYTES_MAX:]
        for line in lines:
            try:
                self._obey_line(line.decode().split())
            except ValueError:  # the command itself can write here: that must not end its shim
                continue

    def _obey_line(self, words: list[str]) -> None:
        match words:
            case ["deadline", instant]:
                self._deadline = _finite(instant)
            case ["soft", seconds]:
                ends = boot_clock() + _finite(seconds)
                if self._soft_ends == NEVER:
                    self._reason = "soft"
                    _send(os.killpg, self._pid, signal.SIGTERM)
                self._soft_ends = min(self._soft_ends, ends)
            case ["hard"]:
                self._reason = "hard"
            case _:
                raise ValueError(words)

    def _must_end(self) -> bool:
        if self._reason == "hard":
            return True
        now = boot_clock()
        if self._deadline <= now:
            self._reason = "lease"
            return True
        # The kernel has killed one of its processes: what is left may wait for it for ever.
        return self._soft_ends <= now or self._limits.oom_kills() > 0

    def _bound_output(self) -> None:
        size = os.fstat(self._output).st_size
        most = self._order.output_bytes_max
        if size - self._output_size > most // 64:  # it comes fast: look again soon
            self._slice = SLICE_SECONDS_MIN
        if size > most:
            os.ftruncate(self._output, most // 2)
            os.write(self._output, b"\n[output over %d bytes was dropped here]\n" % most)
            size = most // 2
        self._output_size = size

    def _sample(self) -> None:
        self._sample_every = min(self._sample_every * 2, SAMPLE_SECONDS_MAX)
        self._sample_due = boot_clock() + self._sample_every
        pids = self._limits.list_pids()
        if pids is None:
            held = process_tree.list_tree(os.getpid())
            self._memory_peak = max(self._memory_peak, sum(held.values()))
            pids = set(held)
        self._processes_max = max(self._processes_max, len(pids))

    def _end_all(self) -> None:
        """Kill and reap until nothing is left; for as long as that takes, since it is our duty."""
        pause = PAUSE_SECONDS_MIN
        paths = [group.path for group in self._limits.groups]
        while self._pid and not self._is_gone(paths):
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
        while not watchdog.sweep([], [watchdog.mark_of(self._order.token)]):
            continue  # it pauses by itself
        self._note_memory()
        if not resource_limits.end_groups(paths):
            sys.stderr.write(f"could not remove {paths}\n")

    def _is_gone(self, paths: list[str]) -> bool:
        resource_limits.kill_groups(paths)
        if self._status is None:  # not reaped, so the number is its own
            watchdog.kill_group(self._pid)
            _send(os.kill, self._pid, signal.SIGKILL)  # it may not lead its group yet
        process_tree.kill_listed(lambda: process_tree.list_tree(os.getpid()))
        for _ in range(process_tree.REAP_MAX):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # no descendant at all: an orphan would be our child
                return not resource_limits.list_pids(paths)
            if pid == 0:
                break
            if pid == self._pid:
                self._status = status
        return False

    def _note_memory(self) -> None:
        """Read from the groups what is lost with them."""
        self._memory_peak = max(self._memory_peak, self._limits.memory_peak())
        was_success = self._status is not None and os.waitstatus_to_exitcode(self._status) == 0
        if self._reason in (None, "soft") and not was_success and self._limits.oom_kills():
            self._reason = "oom"
            self._error = f"out of memory: its limit is {self._order.memory} bytes"

    def _tell_end(self) -> dict[str, object]:
        assert self._status is not None, "a command that was started has been reaped"
        code = os.waitstatus_to_exitcode(self._status)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # all were reaped, by us or each other
        # Of the largest process; samples and groups know of all together.
        single = 0 if self._limits.groups else used.ru_maxrss * 1024
        has_run = self._started_at is not None
        if not has_run and self._reason is None and code >= 0:  # it could not even say why
            self._reason, self._error = "cannot_start", "the command could not be started"
        return {
            "exit_code": code if code >= 0 and has_run else None,
            "signal": -code if code < 0 else None,
            "reason": self._reason,
            "error": self._error,
            "started_at": self._started_at,
            "ended_at": time.time(),
            "usage": {
                "cpu_seconds": used.ru_utime + used.ru_stime,
                "memory_peak_bytes": max(self._memory_peak, single),
                "processes_max": max(self._processes_max, int(has_run)),
            },
            "limits": self._said,
        }


def _become(
    order: Order, bounds: resource_limits.Limits, *, shim: int, output: int, said: int
) -> None:
    """Turn this process into the command, or tell why that cannot be."""
    os.setsid()
    # Should the shim be killed, its command dies with it: nobody would keep its deadline.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != shim:
        return
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)  # ignored ones would be inherited
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.dup2(output, 1)
    os.dup2(output, 2)
    step = "cannot set the limits"
    try:
        enforced = bounds.enter()
        step = f"cannot enter the folder {order.cwd!r}"
        os.chdir(order.cwd)
        step = f"cannot run {order.argv[0]!r}" if order.argv else "the command is empty"
        os.write(said, enforced.encode())
        os.execvpe(order.argv[0], order.argv, order.environment)
    except OSError as error:
        reason = f"{step}: {error.strerror}"
    except (ValueError, IndexError) as error:  # a NUL character, a name with = in it, no program
        reason = f"{step}: {error}"
    except MemoryError:
        reason = f"{step}: the memory limit is too low for that"
    os.write(said, _FAULT + reason.encode("utf-8", "backslashreplace"))


def _send(send: Callable[[int, int], None], pid: int, number: int) -> None:
    """Signal the command or its group, which must not have been reaped."""
    assert pid > 1, pid
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # no deadline at all is none that we keep
        raise ValueError(text)
    return number


def write(path: str, content: object, *, is_synced: bool = False) -> None:
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


def main(folder: str) -> None:
    """Serve one order, if nobody has before."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would lose exit statuses
    lock = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # others only look, or have written the end down
    if os.path.exists(f"{folder}/{EXIT}") or os.path.exists(f"{folder}/{GROUPS}"):
        return
    control = os.open(f"{folder}/{CONTROL}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    # Open for both: there may be no reader by now, and a later worker may become one.
    alive = os.open(f"{folder}/{ALIVE}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the reaper of descendants")
    with open(f"{folder}/{ORDER}", "rb") as file:
        supervisor = CommandSupervisor(folder, Order(file.read()), control)
    os.write(alive, READY)
    supervisor.run()
