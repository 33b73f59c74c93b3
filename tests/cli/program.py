"""The program as its users start it: a process of its own, on a terminal if need be."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

PROGRAM = str(Path(sys.executable).with_name("holdfast"))
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


def run(*arguments: str, **variables: str) -> Ended:
    """Run the program to its end."""
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
