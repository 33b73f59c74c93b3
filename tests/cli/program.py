"""The program as its users start it: a process of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAM = str(Path(sys.executable).with_name("holdfast"))
SECONDS_MAX = 120


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


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for a started program to end."""
    out, err = process.communicate(timeout=SECONDS_MAX)
    return Ended(process.returncode, out, err)


def run(*arguments: str, **variables: str) -> Ended:
    """Run the program to its end."""
    return finish(start(*arguments, **variables))
