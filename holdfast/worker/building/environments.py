"""Python environments on a worker: made by uv once for each set of requirements, and shared.

An environment also finds what the worker itself can import, after its own packages, so that
functions of tasks run in it and programs can `import holdfast`.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.worker.building.caches import (
    BuildFailed,
    BuildUnavailable,
    Hold,
    ToolMissing,
    evict,
    in_thread,
    take_turns,
    try_hold,
)
from holdfast.worker.watchdog_handle import plain_environment

BUILD_SECONDS_MAX = 1800.0
LOOK_SECONDS = 0.2
LOG_BYTES_MAX = 8192
READY = "ready"
# By attempts that are users of their own, once they are let into the folder above; see umask below.
READABLE = 0o755
# An environment of the worker's own would lead uv and Python astray.
_NOT_HANDED_ON = (
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH"),
    *("UV_PYTHON", "UV_SYSTEM_PYTHON"),
)
# What uv writes when it is not the requirements that are wrong.
_HOST_TROUBLE = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Too many open files"
    r"|Permission denied|error sending request|tcp connect error|dns error|timed out"
    r"|Connection re(?:fused|set)|HTTP status server error|network was disabled"
)


class Environment(NamedTuple):
    """An environment on this host, held until it is closed."""

    hold: Hold
    python: Path
    was_cached: bool


class Environments:
    """The environments of this host; several workers may share the folder."""

    def __init__(self, folder: Path, *, environments_max: int) -> None:
        self._folder = folder
        self._environments_max = environments_max

    async def open(self, requirements: Sequence[str]) -> Environment:
        """Give the environment with these packages; BuildFailed, BuildUnavailable or OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = sorted({line.strip() for line in requirements})
        path = self._folder / name_environment(wanted)
        async for _ in take_turns(BUILD_SECONDS_MAX):
            hold = try_hold(path, shared=True)
            if hold is not None and (path / READY).exists():
                hold.note_use()
                path.chmod(READABLE)  # an older version made it otherwise
                return Environment(hold, _python_in(path), was_cached=True)
            if hold is not None:
                hold.close()
            path.mkdir(exist_ok=True)
            path.chmod(READABLE)
            hold = try_hold(path)
            if hold is None:  # somebody else is making it
                continue
            if await self._make(hold, wanted):
                return Environment(hold, _python_in(path), was_cached=False)
        raise BuildUnavailable("another task has been making the environment for too long")

    async def _make(self, hold: Hold, wanted: Sequence[str]) -> bool:
        """Make an environment in a folder that is held; False if that needs another turn."""
        is_here = False
        try:
            if not (hold.path / READY).exists():
                await in_thread(partial(_build, hold, wanted))
                hold.note_use()
                await in_thread(self._make_room)
                is_here = hold.share()
            return is_here
        finally:
            if not is_here:
                hold.close()

    def _make_room(self, _: threading.Event) -> None:
        evict(self._folder, self._environments_max, weigh=lambda _: 1, remove=_remove)


def name_environment(requirements: Sequence[str]) -> str:
    """Name an environment by all that decides what is in it."""
    python = (sys.implementation.name, platform.python_version(), sys.base_prefix)
    return hashlib.sha256(json.dumps([requirements, python]).encode()).hexdigest()


def find_uv() -> str:
    """Find the program that makes environments: on the PATH, or where this Python is."""
    found = shutil.which("uv") or shutil.which("uv", path=os.path.dirname(sys.executable))
    if found is None:
        raise ToolMissing("there is no uv on this worker; install it: pip install uv")
    return found


def _build(hold: Hold, requirements: Sequence[str], stop: threading.Event) -> None:
    """Make an environment; what an earlier try has left in its folder is made anew."""
    uv, folder = find_uv(), hold.path
    lines = folder / "requirements.txt"
    lines.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
    if (folder / "venv").exists():
        shutil.rmtree(folder / "venv")
    made = [uv, "venv", "--no-project", "--python", sys.executable, str(folder / "venv")]
    if problem := _run(made, hold, stop):
        raise BuildUnavailable(f"uv cannot make an environment: {problem}")
    installed = [uv, "pip", "install", "--python", str(_python_in(folder)), "-r", str(lines)]
    if problem := _run(installed, hold, stop):
        raise BuildFailed(f"the requirements cannot be installed: {problem}")
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    own = [str(Path(__file__).parents[2])]  # where this package is
    own += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (packages / "zz_holdfast.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(own)))
    (folder / READY).touch()


def _run(command: Sequence[str], hold: Hold, stop: threading.Event) -> str:
    """Run uv to its end; returns what is wrong with what it was given.

    It holds the folder too: should this process die before it, nobody comes between.
    """
    log = hold.path / "uv.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--quiet", "--color", "never"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=hold.path,
            env={n: text for n, text in plain_environment().items() if n not in _NOT_HANDED_ON},
            umask=0o022,
            pass_fds=(hold.fd,),
            start_new_session=True,
        )
    code = _wait(process, stop)
    if stop.is_set():
        raise BuildUnavailable("the build was broken off")
    if code == 0:
        return ""
    problem = _read_end(log)
    if code < 0 or _HOST_TROUBLE.search(problem):
        raise BuildUnavailable(f"uv cannot work here (code {code}): {problem}")
    return problem or f"uv ended with code {code}"


def _wait(process: subprocess.Popen[bytes], stop: threading.Event) -> int:
    """Wait for a process; one that takes too long, or is not wanted any more, is killed."""
    ends_at = time.monotonic() + BUILD_SECONDS_MAX
    while True:
        try:
            return process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if stop.is_set() or time.monotonic() > ends_at:
                # Not reaped yet, so its number, which is its group's too, is still its own.
                assert process.pid > 1, process.pid
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _read_end(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES_MAX))
        return file.read().decode(errors="replace").strip()


def _python_in(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def _remove(folder: Path) -> None:
    """Remove an environment; from the first step on it is none any more."""
    (folder / READY).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
