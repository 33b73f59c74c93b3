"""The program as its users start it: a process of its own, on a terminal if need be."""

import atexit
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

PROGRAM = str(Path(sys.executable).with_name("holdfast"))
FORKS = Path(__file__).with_name("forks.py")
SECONDS_MAX = 120
LOOK_SECONDS = 0.05
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    code: int
    out: str
    err: str


def environment(**variables: str) -> dict[str, str]:
    """Take this process's variables without those that would change what the program does."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
    return own | {"COLUMNS": "80", "NO_COLOR": "1"} | variables


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start the program in a session of its own, where nobody else hears its signals."""
    return subprocess.Popen(
        [PROGRAM, *arguments],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def bounded(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """Kill a program that goes on for longer than any test: whoever reads from it reads its end."""
    end = threading.Timer(SECONDS_MAX, process.kill)
    end.daemon = True
    end.start()
    return process


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for a started program to end."""
    out, err = process.communicate(timeout=SECONDS_MAX)
    return Ended(process.returncode, out, err)


class Forks:
    """The process that forks the program, and its answers."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="holdfast-forks-")
        self._process = subprocess.Popen(
            [sys.executable, str(FORKS)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def run(
        self, arguments: tuple[str, ...], variables: dict[str, str], unread: int | None = None
    ) -> Ended:
        """Run the program to its end; who reads one of its streams may have gone."""
        out, err = (Path(self._folder.name, name) for name in ("out", "err"))
        for path in (out, err):
            path.write_bytes(b"")
        order = {
            "arguments": arguments,
            "environment": variables,
            "folder": os.getcwd(),
            "out": str(out),
            "err": str(err),
            "unread": unread,
        }
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{json.dumps(order)}\n")
        end = threading.Timer(SECONDS_MAX, os.killpg, (int(stdout.readline()), signal.SIGKILL))
        end.start()
        try:
            code = int(stdout.readline())
        finally:
            end.cancel()
            end.join()
        return Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    def close(self) -> None:
        """Let it end."""
        self._process.communicate(timeout=SECONDS_MAX)
        self._folder.cleanup()


@cache
def open_forks() -> Forks:
    """Start the process that forks, once, for as long as the tests run."""
    forks = Forks()
    atexit.register(forks.close)
    return forks


def run(*arguments: str, **variables: str) -> Ended:
    """Run the program to its end, in a process that need not import what all of them import."""
    return open_forks().run(arguments, environment(**variables))


def run_unread(unread: int, *arguments: str, **variables: str) -> Ended:
    """Run the program to its end with 1, its standard output, or 2, the other, a broken pipe."""
    return open_forks().run(arguments, environment(**variables), unread)


def run_anew(*arguments: str, **variables: str) -> Ended:
    """Run the program to its end as a shell would, imports and all."""
    return finish(start(*arguments, **variables))


def run_with_input(text: str, *arguments: str, **variables: str) -> Ended:
    """Run the program with something to read."""
    ended = subprocess.run(
        [PROGRAM, *arguments],
        env=environment(**variables),
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def run_on_terminal(*arguments: str, columns: int = 100, **variables: str) -> Ended:
    """Run the program on a terminal of its own, whose whole text is `out`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    shown = environment(**variables, TERM="xterm-256color", COLORTERM="truecolor")
    for name in ("COLUMNS", "NO_COLOR"):
        del shown[name]
    process = subprocess.Popen(
        [PROGRAM, *arguments],
        env=shown,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65536):
            text += piece
    except OSError:
        pass  # so a terminal says that nobody writes any more
    finally:
        os.close(ours)
    return Ended(process.wait(SECONDS_MAX), text.decode().replace("\r\n", "\n"), "")


def eventually(find: Callable[[], Answer | None]) -> Answer:
    """Wait until something is found; what never comes is a failure."""
    ends_at = time.monotonic() + SECONDS_MAX
    while time.monotonic() < ends_at:
        found = find()
        if found:
            return found
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"{find} has found nothing in {SECONDS_MAX} s")
