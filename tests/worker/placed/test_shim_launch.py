"""The start of a shim: once for each folder, and with nothing of the worker's own."""

import os
import sys
from pathlib import Path

import pytest

from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.processes import shim_folder
from tests.worker.shimmed import a_script, an_order, find_shim, launching, run, running


async def test_folder_and_order_are_nobody_elses_business(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o755)
    await run(tmp_path / "folder", a_script("exit 0"))
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "folder" / shim_folder.ORDER).stat().st_mode & 0o777 == 0o600


async def test_a_folder_holds_one_order_ever(tmp_path: Path) -> None:
    await run(tmp_path, a_script("exit 0"))
    with launching() as launcher, pytest.raises(FileExistsError):
        await Shim.start(launcher, tmp_path, a_script("exit 0"))
    assert (await Shim.adopt(tmp_path).wait()).exit_code == 0


@pytest.mark.parametrize(
    ("program", "error"), [("/no/such/python", FileNotFoundError), ("/bin/false", OSError)]
)
async def test_a_host_that_cannot_start_a_shim_keeps_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, error: type[OSError]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", program)
        with launching() as launcher, pytest.raises(error):
            await Shim.start(launcher, tmp_path / "folder", a_script("exit 0"))
    assert os.listdir(tmp_path / "folder") in ([], [shim_folder.LOG])
    assert (await run(tmp_path / "folder", a_script("exit 0"))).exit_code == 0


async def test_a_shim_knows_none_of_the_workers_descriptors_nor_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TASK_ID", "1.1")
    heard, said = os.pipe()
    os.set_inheritable(said, True)
    order = an_order("sleep", "600")
    async with running(tmp_path, order):
        os.close(said)
        assert os.read(heard, 1) == b""
        process = find_shim(tmp_path)
        assert process.environ()["HOLDFAST_MARK"] == order.mark
        assert order.token not in " ".join([*process.environ().values(), *process.cmdline()])
        assert "HOLDFAST_TASK_ID" not in process.environ()
        assert os.getsid(process.pid) == process.pid
    os.close(heard)
