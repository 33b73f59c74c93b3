"""Processes of a run are found by their mark, die together, and come back."""

import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chaos.processes import Host, environment, send
from tests.waiting import eventually

# Has a child that has left for a session of its own, as a shim does.
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A program with a child."""
    command = [sys.executable, "-c", PARENT]
    host = Host("worker-1", command, environment(), tmp_path / "log")
    host.start()
    yield host
    host.end()
    assert not host.everything()


async def test_a_dead_host_takes_all_it_had_started_with_it(host: Host) -> None:
    await eventually(lambda: len(host.everything()) == 2)
    host.die()
    await eventually(lambda: not [p for p in host.everything() if is_alive(p)])


async def test_what_has_ended_is_started_again(host: Host) -> None:
    [first] = host.main()
    send([first], signal.SIGKILL)

    def is_back() -> bool:
        host.tend()
        return host.starts == 2 and host.main() not in ([], [first])

    await eventually(is_back)


async def test_what_is_replaced_comes_back_with_other_variables(host: Host) -> None:
    [first] = host.main()
    host.replace(VERSION="2")

    def is_replaced() -> bool:
        host.tend()
        found = [each for each in host.main() if each != first]
        return bool(found) and found[0].environ().get("VERSION") == "2"

    await eventually(is_replaced)


async def test_no_file_of_a_full_disk_grows_until_it_is_freed(host: Host) -> None:
    await eventually(lambda: len(host.everything()) == 2)
    free = host.fill_disk()
    assert {bound(process) for process in host.everything()} == {0}
    free()
    assert {bound(process) for process in host.everything()} == {resource.RLIM_INFINITY}


async def test_a_signal_to_who_has_gone_is_none(host: Host) -> None:
    processes = host.main()
    host.die()
    await eventually(lambda: not host.main())
    send(processes, signal.SIGCONT)


def bound(process: psutil.Process) -> int:
    """Say how long a file of a process may become."""
    return process.rlimit(psutil.RLIMIT_FSIZE)[0]


def is_alive(process: psutil.Process) -> bool:
    """Tell whether it has not ended."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
