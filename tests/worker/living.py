"""Start worker processes, know the processes of their work, and see whether those live."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from tests.embedded.users import ROOT, wait_for

PROGRAM = Path(__file__).with_name("worker_program.py")
FAMILY = """
echo $$ > leader
sleep 600 &
echo $! > background
setsid sh -c 'echo $$ > deserter; exec sleep 600' &
wait
"""
MEMBERS = ("leader", "background", "deserter")


Process = psutil.Process | subprocess.Popen[bytes]


def lives(process: Process) -> bool:
    """Tell whether a process runs; a zombie does not."""
    if isinstance(process, subprocess.Popen):
        return process.poll() is None
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def await_process(path: Path) -> psutil.Process:
    """Wait until a process has written its pid to the file."""
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
    return psutil.Process(int(path.read_text()))


def await_family(folder: Path) -> list[psutil.Process]:
    """Wait until the three processes of the script FAMILY run in a folder."""
    return [await_process(folder / name) for name in MEMBERS]


def a_token() -> str:
    """Make up a token that no other test carries: a sweep knows no bounds between tests."""
    return uuid4().hex


def start_sleeper(mark: str) -> subprocess.Popen[bytes]:
    """Start a process group that carries a mark."""
    environment = {**os.environ, "HOLDFAST_MARK": mark}
    return subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True)


@dataclass
class Worker:
    """A worker process and what it has told."""

    process: subprocess.Popen[bytes]
    told: dict[str, Any]
    members: list[psutil.Process]

    @property
    def processes(self) -> list[Process]:
        """The worker, its watchdog and all processes of its work."""
        return [self.process, *self.members]

    @property
    def family(self) -> list[psutil.Process]:
        """The processes of its command."""
        return self.members[-len(MEMBERS) :]

    def tell(self, line: str) -> None:
        """Write a line to the worker."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def is_all_gone(self) -> bool:
        """Tell whether nothing of the worker is left."""
        return not any(lives(process) for process in self.processes)


class Workers:
    """The worker processes of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Process] = []

    def start(self, incarnation: str, script: str = FAMILY) -> Worker:
        """Start a worker with a family of processes, and wait until all of it runs."""
        command = [sys.executable, str(PROGRAM), str(self.folder), incarnation, script]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, env=environment)
        self._started.append(process)
        assert process.stdout is not None
        with process.stdout as answers:
            told = json.loads(answers.readline())
        pids = [told[name] for name in ("watchdog", "command", "forked", "spawned")]
        members = [psutil.Process(pid) for pid in pids]
        self._started += members
        members += await_family(self.folder / incarnation / "work")
        self._started += members
        return Worker(process, told, members)

    def clean_up(self) -> None:
        """Kill whatever a failed test left."""
        for process in self._started:
            if lives(process):
                process.kill()
        for process in self._started:
            if isinstance(process, subprocess.Popen):
                process.communicate()
        wait_for(lambda: not any(lives(process) for process in self._started))
