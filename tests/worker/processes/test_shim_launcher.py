"""The launcher of shims, killed at every step: what runs runs on, and what is asked for comes."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from holdfast.worker.placed import shim_launch
from holdfast.worker.placed.launcher_handle import Launcher
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.clock import boot_clock
from holdfast.worker.processes.shim_launcher import NO_MARK
from tests.embedded.users import ROOT
from tests.waiting import eventually
from tests.worker.living import FAMILY, await_family, lives
from tests.worker.shimmed import a_script, an_order, find_shim, launching, list_carriers


def kill(launcher: Launcher) -> psutil.Process:
    """Kill a launcher, and wait until it is gone."""
    process = psutil.Process(launcher.pid)
    process.kill()
    return process


async def test_shims_run_on_and_keep_their_deadlines_when_their_launcher_is_killed(
    tmp_path: Path,
) -> None:
    folder, order = tmp_path / "folder", a_script(FAMILY, cwd=str(tmp_path))
    with launching() as launcher:
        started = await Shim.start(launcher, folder, order)
        family = await await_in_thread(tmp_path)
        kill(launcher)
        await eventually(lambda: find_shim(folder).ppid() != launcher.pid)
        assert started.is_alive()
        assert all(lives(member) for member in family)
        started.renew(boot_clock() + 0.1)
        ended = await started.wait()
    assert (ended.signal, ended.reason) == (signal.SIGKILL, "lease")
    assert not any(lives(member) for member in family)
    assert list_carriers(order.token) == []


async def await_in_thread(folder: Path) -> list[psutil.Process]:
    """Wait for a family without holding up the loop."""
    return list(await asyncio.to_thread(await_family, folder))


async def test_what_a_launcher_takes_with_it_is_asked_of_the_next_one(tmp_path: Path) -> None:
    with launching() as launcher:
        launcher.start()
        stopped = psutil.Process(launcher.pid)
        stopped.suspend()  # so that what is asked of it stays unread
        starting = [
            asyncio.create_task(Shim.start(launcher, tmp_path / str(n), a_script(f"exit {n}")))
            for n in range(3)
        ]
        orders = [tmp_path / str(n) / shim_folder.LOG for n in range(3)]
        await eventually(lambda: all(order.exists() for order in orders))
        stopped.kill()
        shims = await asyncio.gather(*starting)
        assert [(await shim.wait()).exit_code for shim in shims] == [0, 1, 2]


async def test_a_launcher_that_is_killed_at_any_moment_loses_no_start_and_makes_none_twice(
    tmp_path: Path,
) -> None:
    with launching() as launcher:
        for n in range(30):  # before, in and after its fork
            launcher.start()
            script = f"echo once >> {tmp_path / f'{n}.ran'}"
            starting = asyncio.create_task(
                Shim.start(launcher, tmp_path / str(n), a_script(script))
            )
            await asyncio.wait([starting], timeout=n / 2000)
            kill(launcher)
            assert (await (await starting).wait()).exit_code == 0
            assert (tmp_path / f"{n}.ran").read_text() == "once\n"


async def test_a_launcher_that_is_stuck_begins_nothing_after_the_worker_has_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_launch, "START_SECONDS_MAX", 0.2)
    with launching() as launcher:
        launcher.start()
        stuck = psutil.Process(launcher.pid)
        stuck.suspend()
        with pytest.raises(OSError, match="did not start"):
            await Shim.start(launcher, tmp_path / "folder", a_script("touch made"))
        assert not stuck.is_running()
        assert os.listdir(tmp_path / "folder") == [shim_folder.LOG]
        monkeypatch.undo()
        ended = await Shim.start(launcher, tmp_path / "other", a_script("exit 4"))
        assert (await ended.wait()).exit_code == 4


def start_and_kill(program: str, folder: Path) -> psutil.Process:
    """Have a worker process start a launcher and a shim, and kill it; returns the launcher."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as worker:
        assert worker.stdout is not None
        launcher = psutil.Process(int(worker.stdout.readline()))
        worker.kill()
    return launcher


def list_descriptors(process: psutil.Process) -> list[str]:
    """List what a process has open."""
    return [os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir()]


async def test_a_launcher_ends_with_its_worker_and_leaves_the_shims(tmp_path: Path) -> None:
    program = (
        "import asyncio, signal, sys\n"
        "from pathlib import Path\n"
        "from holdfast.worker.placed.launcher_handle import Launcher\n"
        "from holdfast.worker.placed.shim_handle import Shim\n"
        "from tests.worker.shimmed import an_order\n"
        "launcher = Launcher()\n"
        "asyncio.run(Shim.start(launcher, Path(sys.argv[1]), an_order('sleep', '600')))\n"
        "print(launcher.pid, flush=True)\n"
        "signal.pause()\n"
    )
    launcher = start_and_kill(program, tmp_path)
    await eventually(lambda: not lives(launcher))
    adopted = Shim.adopt(tmp_path)
    assert adopted.is_alive()
    adopted.hard()
    assert (await adopted.wait()).reason == "hard"


async def test_a_launcher_and_its_shims_have_neither_mark_nor_descriptors_of_others(
    tmp_path: Path,
) -> None:
    with launching() as launcher:
        orders = [an_order("sleep", "600") for _ in range(2)]
        shims = [
            await Shim.start(launcher, tmp_path / str(n), order) for n, order in enumerate(orders)
        ]
        process = psutil.Process(launcher.pid)
        assert process.environ()["HOLDFAST_MARK"] == NO_MARK
        for n, order in enumerate(orders):
            found = find_shim(tmp_path / str(n))
            assert found.environ()["HOLDFAST_MARK"] == order.mark
            paths = list_descriptors(found)
            assert not any(str(tmp_path / str(1 - n)) in path for path in paths)
            assert not any("socket:" in path for path in paths)
        assert len(list_descriptors(process)) == 3 + 4
        for shim in shims:
            shim.hard()
            await shim.wait()
        await eventually(lambda: process.children() == [])
