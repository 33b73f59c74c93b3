"""The worker's side of its launcher: started when it is needed, and again when it has died."""

from pathlib import Path

import psutil
import pytest

from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.processes.shim_launcher import NO_MARK
from tests.worker.shimmed import a_script, an_order, launching, run


async def test_a_launcher_that_was_killed_is_replaced_by_the_next_start(tmp_path: Path) -> None:
    with launching() as launcher:
        first = await Shim.start(launcher, tmp_path / "first", an_order("sleep", "600"))
        before = launcher.pid
        psutil.Process(launcher.pid).kill()
        second = await Shim.start(launcher, tmp_path / "second", a_script("exit 3"))
        assert launcher.pid != before
        assert (await second.wait()).exit_code == 3
        first.hard()
        assert (await first.wait()).reason == "hard"


async def test_a_shim_with_a_long_path_is_found_and_one_that_is_too_long_is_refused(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("a" * 200) / ("b" * 200)
    deep.mkdir(parents=True)
    assert (await run(deep / "folder", a_script("exit 0"))).exit_code == 0
    with launching() as launcher, pytest.raises(OSError, match="too long"):
        launcher.send(NO_MARK, "/" + "c" * 9000, [])
