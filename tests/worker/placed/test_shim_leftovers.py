"""What a shim leaves is found, ended and removed."""

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.placed.shim_leftovers import LOG_BYTES_MAX, kill_leftovers, read_log_tail
from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.mark import mark_of
from tests.waiting import eventually
from tests.worker.living import a_token, lives, start_sleeper
from tests.worker.shimmed import a_script, an_order, find_cgroup, find_shim, run, running


async def test_a_stray_of_a_killed_shim_is_found_by_its_group(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    script = "setsid env -i sh -c 'echo $$ > stray; exec sleep 600' & wait"
    order = a_script(script, cwd=str(tmp_path))
    async with running(folder, order) as started:
        path = tmp_path / "stray"
        await eventually(lambda: path.exists() and path.read_text())
        stray = psutil.Process(int(path.read_text()))
        cgroup = find_cgroup(order.token)
        find_shim(folder).kill()
        await started.wait()
        if cgroup is not None:
            assert not lives(stray)
        elif lives(stray):  # nothing is left by which to know it
            stray.kill()


async def test_a_cgroup_that_a_lost_shim_has_made_elsewhere_is_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "holdfast-elsewhere"
    elsewhere.mkdir()
    folder = tmp_path / "folder"
    async with running(folder, an_order("sleep", "600")) as started:
        await eventually(started.has_started)
        (folder / shim_folder.CGROUP).write_text(json.dumps(str(elsewhere)))
        find_shim(folder).kill()
        await started.wait()
    assert not elsewhere.exists()


async def test_a_command_that_deletes_everything_is_still_ended(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    script = f"rm -rf {folder}; setsid sleep 600 & sleep 600"
    async with running(folder, a_script(script)) as started:
        await eventually(lambda: not folder.exists())
        assert (await started.wait()).reason == "shim_lost"


async def test_a_folder_is_removed_and_nothing_that_it_links_to(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    outside.mkdir(mode=0o750)
    folder.mkdir()
    script = f"mkdir -p a/b; touch a/b/c; chmod 500 a/b a; ln -s {outside} a-link"
    await run(folder, a_script(script, cwd=str(folder)))
    Shim.adopt(folder).remove()
    assert not folder.exists()
    assert outside.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("text", [None, "null", "[1", '["a list"]'])
def test_who_carries_the_mark_is_killed_whatever_the_folder_holds(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / shim_folder.CGROUP).write_text(text)
    token = a_token()
    carrier, stranger = start_sleeper(mark_of(token)), start_sleeper(mark_of(token) + "0")
    older = subprocess.Popen(["sleep", "600"], env={**os.environ, "HOLDFAST_LEASE_TOKEN": token})
    assert kill_leftovers(tmp_path, token, 0)
    carrier.wait(60)
    older.wait(60)
    assert lives(stranger)
    stranger.kill()
    stranger.wait(60)


def test_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    assert read_log_tail(tmp_path) == ""
    (tmp_path / shim_folder.LOG).write_bytes(b"x" * 5000 + b"\xff why\n")
    assert read_log_tail(tmp_path).endswith("x\ufffd why")
    assert len(read_log_tail(tmp_path)) <= LOG_BYTES_MAX
