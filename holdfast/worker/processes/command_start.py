"""Turn a process that the shim has forked into the command, under its limits.

The new process reports on a pipe: first what enforces its limits, then, if it cannot become the
command, a mark and the reason. The pipe closes when the command runs, or when the process has died.
"""

import ctypes
import json
import os
import signal
import warnings  # noqa: F401 - or `exec` would import it, once for each command

from holdfast.worker.processes.launcher import take_uid
from holdfast.worker.processes.resource_limits import Limits
from holdfast.worker.processes.watchdog import MARK_NAME, TOKEN_NAME

REPORT_BYTES_MAX = 4096
_FAILED = b"!"
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
# The signals whose ways we, or Python, have changed: what is ignored would be inherited.
_CHANGED = tuple(
    int(getattr(signal, f"SIG{name}")) for name in ("HUP", "INT", "TERM", "CHLD", "PIPE", "XFSZ")
)
# As `_LIBC`, but in the sense of a fork: nothing else of Python runs meanwhile.
_PYTHON = ctypes.PyDLL(None, use_errno=True)
_CLONE3, _CLONE_INTO_CGROUP = 435, 0x200000000
_EXIT_SIGNAL, _CGROUP, _WORDS = 4, 10, 11  # in the kernel's struct clone_args


class Order:
    """What the worker wants run."""

    def __init__(self, text: bytes) -> None:
        fields = json.loads(text)
        self.argv: list[str] = fields["argv"]
        self.cwd: str = fields["cwd"]
        self.mark: str = fields["mark"]
        self.uid: int = fields["uid"]
        own = {TOKEN_NAME: fields["token"], MARK_NAME: self.mark}
        self.environment: dict[str, str] = {**fields["environment"], **own}
        self.deadline: float = fields["deadline"]
        self.memory: int = fields["memory"]
        self.cpu: float = fields["cpu"]
        self.output_bytes_max: int = fields["output_bytes_max"]
        self.cgroups: bool = fields["cgroups"]


class CommandStart:
    """A process on its way to becoming the command, and the pipe on which it reports."""

    def __init__(self, order: Order, limits: Limits, output: int) -> None:
        self.pipe, theirs = os.pipe()
        os.set_blocking(self.pipe, False)
        self._report = b""
        shim = os.getpid()
        cgroup = limits.open()
        born_there = None if cgroup is None else _fork_into(cgroup)
        self.pid = os.fork() if born_there is None else born_there
        if self.pid == 0:
            is_there = born_there is not None
            try:
                _become(order, limits, is_there=is_there, shim=shim, output=output, report=theirs)
            finally:
                os._exit(127)
        os.close(theirs)
        if cgroup is not None:
            os.close(cgroup)

    def is_over(self) -> bool:
        """Read what was reported; True once it is the command, or never will be."""
        try:
            while text := os.read(self.pipe, REPORT_BYTES_MAX):
                self._report += text
        except BlockingIOError:
            return False
        os.close(self.pipe)
        return True

    def enforced_by(self) -> str | None:
        """Say what enforces the limits of the command; None if it does not run."""
        enforced, failed, _ = self._report.partition(_FAILED)
        return enforced.decode() if enforced and not failed else None

    def error(self) -> str | None:
        """Say why it could not become the command; None if it could, or if it was killed first."""
        _, failed, reason = self._report.partition(_FAILED)
        return reason.decode("utf-8", "replace") if failed else None


def _fork_into(cgroup: int) -> int | None:
    """Fork a process that is in another cgroup from its birth; None where that cannot be had."""
    arguments = (ctypes.c_uint64 * _WORDS)()
    arguments[0], arguments[_EXIT_SIGNAL] = _CLONE_INTO_CGROUP, signal.SIGCHLD
    arguments[_CGROUP] = cgroup
    _PYTHON.PyOS_BeforeFork()
    pid = int(_PYTHON.syscall(_CLONE3, arguments, ctypes.c_size_t(ctypes.sizeof(arguments))))
    if pid == 0:
        _PYTHON.PyOS_AfterFork_Child()
    else:
        _PYTHON.PyOS_AfterFork_Parent()
    return None if pid < 0 else pid


def _become(
    order: Order, limits: Limits, *, is_there: bool, shim: int, output: int, report: int
) -> None:
    os.setsid()
    for number in _CHANGED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.dup2(output, 1)
    os.dup2(output, 2)
    step = "cannot set the limits"
    try:
        enforced = limits.enter(is_there=is_there)
        step = f"cannot be the user {order.uid}"
        if order.uid:
            take_uid(order.uid)
        # Should the shim be killed, its command dies with it: nobody would keep its deadline. Asked
        # for here, since a change of the user forgets it.
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != shim:
            return
        step = f"cannot enter the folder {order.cwd!r}"
        os.chdir(order.cwd)
        step = f"cannot run {order.argv[0]!r}" if order.argv else "the command is empty"
        os.write(report, enforced.encode())
        os.execvpe(order.argv[0], order.argv, order.environment)
    except OSError as error:
        reason = f"{step}: {error.strerror}"
    except (ValueError, IndexError) as error:  # a NUL character, a name with = in it, no program
        reason = f"{step}: {error}"
    except MemoryError:
        reason = f"{step}: the memory limit is too low for that"
    os.write(report, _FAILED + reason.encode("utf-8", "backslashreplace"))
