"""The shim as a program."""

import os
import subprocess
import sys
from pathlib import Path

from holdfast.worker.processes import shim, shim_folder
from tests.worker.shimmed import a_script, run, run_shim


def test_a_shim_without_an_order_fails_and_says_so(tmp_path: Path) -> None:
    for name in (shim_folder.CONTROL, shim_folder.ALIVE):
        os.mkfifo(tmp_path / name)
    assert "order.json" in run_shim(tmp_path)
    assert not (tmp_path / shim_folder.EXIT).exists()


async def test_a_second_shim_in_a_folder_does_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    assert (await run(folder, a_script("echo once"))).exit_code == 0
    (folder / shim_folder.EXIT).unlink()  # as if the first had been killed
    assert run_shim(folder) == ""
    assert (folder / shim_folder.OUTPUT).read_text() == "once\n"
    assert not (folder / shim_folder.EXIT).exists()


def test_the_packages_of_the_shim_bring_in_no_more_than_it_needs() -> None:
    script = (
        "import os, runpy, sys\n"
        f"shim = runpy.run_path({shim.__file__!r})\n"
        f"shim['pretend_packages']({os.path.dirname(shim.__file__)!r})\n"
        "import holdfast.worker.processes.shim_launcher\n"
        "sys.stdout.write(' '.join(sys.modules))\n"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    loaded = set(subprocess.check_output(command, text=True, timeout=60).split())
    assert {name for name in loaded if name.startswith("holdfast.worker.")} == {
        "holdfast.worker.processes",
        *(
            f"holdfast.worker.processes.{name}"
            for name in (
                "clock",
                "command_deadline",
                "command_start",
                "command_supervisor",
                "command_usage",
                "launcher",
                "process_tree",
                "resource_limits",
                "shim",
                "shim_folder",
                "shim_launcher",
                "watchdog",
            )
        ),
    }
    assert not loaded & {"asyncio", "dataclasses", "subprocess", "msgspec"}
