"""Commands under shims, as a placed worker would run them, and what is left of them."""

import os
import select
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from holdfast.worker.placed.launcher_handle import Launcher
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.placed.shim_messages import ShimExit, ShimOrder
from holdfast.worker.processes import resource_limits, shim_folder
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.mark import mark_of
from tests.worker.living import a_token

PATH = {"PATH": os.environ["PATH"]}
ALLOCATE = "import sys; held = bytearray(int(sys.argv[1])); print(len(held))"


def an_order(*argv: str, **changes: Any) -> ShimOrder:
    """Write an order that has two minutes."""
    fields: dict[str, Any] = {
        "argv": list(argv),
        "environment": PATH,
        "cwd": "/",
        "token": a_token(),
        "deadline": boot_clock() + 120,
    }
    return ShimOrder(**(fields | changes))


def a_script(text: str, **changes: Any) -> ShimOrder:
    """Write an order for a shell script."""
    return an_order("sh", "-c", text, **changes)


def a_program(text: str, *arguments: str, **changes: Any) -> ShimOrder:
    """Write an order for a Python program."""
    return an_order(sys.executable, "-I", "-S", "-c", text, *arguments, **changes)


@asynccontextmanager
async def running(folder: Path, order: ShimOrder) -> AsyncIterator[Shim]:
    """Start a command, see it to its end whatever happens, and see that it left nothing."""
    with launching() as launcher:
        started = await Shim.start(launcher, folder, order)
        try:
            yield started
        finally:
            started.hard()
            await started.wait()
    assert list_carriers(order.token) == []
    assert find_cgroup(order.token) is None


async def run(folder: Path, order: ShimOrder) -> ShimExit:
    """Run a command to its end."""
    async with running(folder, order) as started:
        return await started.wait()


@contextmanager
def launching() -> Iterator[Launcher]:
    """Have a launcher for the time of a block."""
    launcher = Launcher()
    try:
        yield launcher
    finally:
        launcher.close()


def run_shim(folder: Path) -> str:
    """Run the shim of a folder to its end; returns what it has complained of."""
    heard, said = os.pipe()
    with launching() as launcher, open(folder / shim_folder.LOG, "ab") as log:
        launcher.send(mark_of(a_token()), str(folder), [said, log.fileno()])
        os.close(said)
        poller = select.poll()
        poller.register(heard, select.POLLIN)
        assert poller.poll(60_000), "the shim does not end"
    os.close(heard)
    return (folder / shim_folder.LOG).read_text()


def find_cgroup(token: str) -> str | None:
    """Find the cgroup of a command, if it is there."""
    own = resource_limits.find_own_cgroup()
    if own is not None and os.path.exists(path := resource_limits.path_of(own, mark_of(token))):
        return path
    return None


def list_carriers(token: str) -> list[psutil.Process]:
    """List the living processes that carry the mark of a token."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOLDFAST_MARK") == mark_of(token):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def find_shim(folder: Path) -> psutil.Process:
    """Find the process that holds a folder's lock."""
    inode = (folder / shim_folder.LOCK).stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            process = psutil.Process(int(fields[4]))
            if str(folder) in process.cmdline():
                return process
    raise AssertionError(f"nobody holds the lock of {folder}")


def can_limit_memory() -> bool:
    """Tell whether this host lets us make cgroups that limit memory."""
    return "memory.max" in _files_of_a_cgroup()


def can_kill_cgroups() -> bool:
    """Tell whether this host lets us make cgroups that are killed in one step."""
    return "cgroup.kill" in _files_of_a_cgroup()


@cache
def _files_of_a_cgroup() -> list[str]:
    limits = resource_limits.Limits()
    limits.plan(resource_limits.find_own_cgroup(), a_token())
    limits.make()
    if limits.cgroup is None:
        return []
    try:
        return os.listdir(limits.cgroup)
    finally:
        os.rmdir(limits.cgroup)
