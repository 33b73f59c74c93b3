"""The worker's handle on its watchdog, the process that kills what overruns a deadline."""

import math
import os
import re
import select
import subprocess
import sys
import threading
from contextlib import suppress

from holdfast.errors import Invalid, Unavailable
from holdfast.worker.processes import watchdog

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
_WORD = re.compile(r"[!-~]{1,128}")
_ENTRY = re.compile(r"HOLDFAST_[A-Z_]+=[!-~]{1,128}")


class WatchdogLost(Unavailable):
    """Nobody ends this worker's processes in time any more, so the worker must stop."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the watchdog {problem}; stop this worker and start it anew")
        self.problem = problem


class WatchdogHandle:
    """A watchdog process and the pipe to it. Any thread may call any method.

    When the pipe closes, by `stop` or the worker's death, the watchdog kills every group it knows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, lock_fd: int, *, mark: str | None = None) -> None:
        """Start the watchdog, which keeps the slot's lock until nothing of this worker is left.

        Processes with the entry `mark` (HOLDFAST_NAME=VALUE) in their environment die with the
        worker too: so do programs that are started by functions within the worker.
        """
        assert self._process is None, "a watchdog is started once"
        if mark is not None and not _ENTRY.fullmatch(mark):
            raise Invalid("mark", f"{mark!r} is not an entry such as HOLDFAST_WORKER=name")
        arguments = [str(os.getpid()), *([mark] if mark else [])]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=(lock_fd,),
            start_new_session=True,
            cwd="/",
            env=plain_environment(),
        )
        self._process = process
        assert process.stdout is not None
        with process.stdout as answers:
            readable, _, _ = select.select([answers], [], [], START_SECONDS_MAX)
            if not readable or answers.read(len(watchdog.READY)) != watchdog.READY:
                process.kill()
                self._close()
                raise WatchdogLost("did not start")

    @property
    def pid(self) -> int:
        """The watchdog's process id."""
        assert self._process is not None, "the watchdog has not been started"
        return self._process.pid

    def set_own_deadline(self, deadline: float | None) -> None:
        """Have this process killed when the deadline passes; None lets it live."""
        self._write("self never" if deadline is None else f"self {_instant(deadline)}")

    def watch_group(self, pgid: int, mark: str, deadline: float, *, uid: int = 0) -> None:
        """Have a process group, and all that carry its mark, killed when the deadline passes.

        So are all processes of the uid, unless it is 0.
        """
        if pgid <= 1:  # killpg(1) would kill every process there is
            raise Invalid("pgid", f"{pgid} is not a process group of a worker's child")
        if not _WORD.fullmatch(mark):
            raise Invalid("mark", "is not one word of at most 128 printable ASCII characters")
        self._write(f"group {pgid} {mark} {uid} {_instant(deadline)}")

    def forget_group(self, pgid: int) -> None:
        """Watch a group no longer, because it has ended."""
        self._write(f"forget {pgid}")

    def is_alive(self) -> bool:
        """Tell whether the watchdog runs."""
        with self._lock:
            return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End every watched group, then the watchdog; blocks until they are gone."""
        with suppress(WatchdogLost):
            self._write("stop")
        self._close()

    def _write(self, line: str) -> None:
        with self._lock:
            pipe = self._process.stdin if self._process else None
            if pipe is None or pipe.closed:
                raise WatchdogLost("is not running")
            try:
                os.write(pipe.fileno(), line.encode() + b"\n")  # shorter than PIPE_BUF: all of it
            except BrokenPipeError as error:
                raise WatchdogLost("has died") from error

    def _close(self) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with self._lock:
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            raise WatchdogLost("still waits for processes that do not die") from error


def plain_environment() -> dict[str, str]:
    """Copy the environment without what is said of a task, so that no sweep hits the copy's owner.

    A worker may itself run within a task.
    """
    return {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}


def _instant(deadline: float) -> str:
    if not math.isfinite(deadline):
        raise Invalid("deadline", f"{deadline} is not a time of the boot clock")
    return f"{deadline:.6f}"
