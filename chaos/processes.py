"""The processes of a run: started, killed, stopped, and started again as a service manager would.

Each carries a mark in its environment that no other run has, and so does whatever it starts: of a
host that dies, all processes with its mark are killed at once.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psutil

from chaos.workload.record import WORKER_VARIABLE

MARK_VARIABLE = "CHAOS_HOST"
RESTART_SECONDS = 0.3
STOP_SECONDS_MAX = 30


class Host:
    """One program that is to run, and all that it has started."""

    def __init__(
        self, name: str, command: Sequence[str], variables: dict[str, str], log: Path
    ) -> None:
        self.name = name
        self.command = list(command)
        self._mark = f"{name}-{uuid4().hex}"
        self.variables = {**variables, MARK_VARIABLE: self._mark, WORKER_VARIABLE: name}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self.starts = 0

    def start(self) -> None:
        """Start it; what it says goes to its log."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self._log.parent,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.starts += 1
        self._start_at = 0.0

    def replace(self, **variables: str) -> None:
        """Ask it to end, so that it is started again with other variables."""
        self.variables |= variables
        send(self.main(), signal.SIGTERM)

    def tend(self) -> None:
        """Start it again some time after it has ended, by whatever."""
        if self._process is None or self._process.poll() is None:
            return
        if not self._start_at:
            self._start_at = time.monotonic() + RESTART_SECONDS
        elif time.monotonic() >= self._start_at:
            self.start()

    def main(self) -> list[psutil.Process]:
        """Find the process that was started."""
        if self._process is None or self._process.poll() is not None:
            return []
        with suppress(psutil.NoSuchProcess):
            return [psutil.Process(self._process.pid)]
        return []

    def child(self) -> list[psutil.Process]:
        """Find the process that works, below the one that supervises it."""
        with suppress(psutil.NoSuchProcess):
            return [child for one in self.main() for child in one.children()][:1]
        return []

    def everything(self) -> list[psutil.Process]:
        """Find all processes that carry the mark."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(MARK_VARIABLE) == self._mark:
                    found.append(process)
        return found

    def die(self) -> None:
        """Kill all of it, as if the power had gone."""
        victims = self.everything()
        send(victims, signal.SIGSTOP)
        send(victims, signal.SIGKILL)

    def fill_disk(self) -> Callable[[], None]:
        """Let nothing that it runs, or starts, make a file longer; returns how to end that."""
        self._bound_files(0)

        def free() -> None:
            # What was started meanwhile has the bound, too; who is being started is in the second.
            for _ in range(2):
                self._bound_files(resource.RLIM_INFINITY)

        return free

    def _bound_files(self, count: int) -> None:
        for process in self.everything():
            with suppress(psutil.NoSuchProcess):
                process.rlimit(psutil.RLIMIT_FSIZE, (count, resource.RLIM_INFINITY))

    def end(self) -> None:
        """End it the gentle way, and whatever is left of it the other."""
        send(self.everything(), signal.SIGCONT)
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.die()


def send(processes: Sequence[psutil.Process], which: signal.Signals) -> None:
    """Send a signal to processes, of which some may have gone."""
    for process in processes:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            process.send_signal(which)


def environment(**more: str) -> dict[str, str]:
    """Take this process's variables, without those that would change what programs do."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
    return own | more
