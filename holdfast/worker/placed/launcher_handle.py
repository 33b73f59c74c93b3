"""The worker's handle on its launcher, the process that forks a shim for every attempt."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from holdfast.worker.processes import shim, shim_launcher, watchdog
from holdfast.worker.watchdog_handle import plain_environment

STOP_SECONDS_MAX = 10.0


class Launcher:
    """A launcher, started when it is needed and again when it has died. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._asking: socket.socket | None = None

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        assert self._process is not None, "the launcher has not been started"
        return self._process.pid

    def start(self) -> None:
        """Have one that runs. Raises OSError if this host cannot."""
        with self._lock:
            self._ensure()

    def send(self, mark: str, folder: str, descriptors: Sequence[int]) -> int:
        """Ask for a shim; returns the launcher that was asked. Raises OSError."""
        assert len(mark) == shim_launcher.MARK_LENGTH, mark
        message = mark.encode() + os.fsencode(folder)
        if len(message) > shim_launcher.MESSAGE_BYTES_MAX:
            raise OSError(f"the path of the folder is too long: {folder}")
        with self._lock:
            try:
                socket.send_fds(self._ensure(), [message], descriptors)
            except (BrokenPipeError, ConnectionResetError):
                self._end()
                socket.send_fds(self._ensure(), [message], descriptors)
            return self.pid

    def end(self, pid: int) -> None:
        """End a launcher, unless that has happened: what it has not begun, it never will."""
        with self._lock:
            if self._process is not None and self._process.pid == pid:
                self._end()

    def close(self) -> None:
        """Let it go; its shims run on."""
        with self._lock:
            asking, self._asking = self._asking, None
            process, self._process = self._process, None
        if asking is not None:
            asking.close()
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS_MAX)

    def _ensure(self) -> socket.socket:
        if self._asking is not None and self._process is not None and self._process.poll() is None:
            return self._asking
        self._end()
        asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with asked:
            try:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", shim.__file__),
                        *(str(asked.fileno()), str(os.getpid()), shim_launcher.ROOM),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(asked.fileno(),),
                    start_new_session=True,
                    cwd="/",
                    env={**plain_environment(), watchdog.MARK_NAME: shim_launcher.NO_MARK},
                )
            except OSError:
                asking.close()
                raise
        self._asking = asking
        return asking

    def _end(self) -> None:
        if self._asking is not None:
            self._asking.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._asking = self._process = None
