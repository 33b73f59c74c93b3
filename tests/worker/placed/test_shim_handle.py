"""Shims from the worker's side: started, taken over, lost, cleaned up."""

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import psutil
import pytest

from holdfast.errors import Invalid
from holdfast.worker.placed import shim_handle
from holdfast.worker.placed.shim_handle import Shim
from holdfast.worker.placed.shim_messages import ShimOrder
from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.clock import boot_clock
from tests.embedded.users import ROOT
from tests.waiting import eventually
from tests.worker.blocking_calls import noting_blocking_calls
from tests.worker.living import FAMILY, await_family, lives
from tests.worker.shimmed import (
    PATH,
    a_script,
    an_order,
    find_shim,
    list_carriers,
    run,
    run_shim,
    running,
)

STARTER = Path(__file__).parents[1] / "shim_starter.py"


def start_and_die(folder: Path, order: ShimOrder) -> None:
    """Have a worker process start a shim, and kill it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    command = [sys.executable, str(STARTER), str(folder)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(msgspec.json.encode(order))
        worker.stdin.close()
        assert worker.stdout.readline() == b"started\n"
        worker.kill()


async def test_a_shim_holds_its_lock_while_its_command_runs(tmp_path: Path) -> None:
    async with running(tmp_path, an_order("sleep", "600")) as started:
        assert started.is_alive()
        await eventually(started.has_started)
        started.hard()
        await started.wait()
        assert not started.is_alive()
        assert started.has_started()
        started.soft(1)  # nobody hears it, and nothing happens
        started.renew(1.0)
        started.hard()


async def test_a_deadline_is_kept_although_the_worker_has_died(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    order = a_script(FAMILY, cwd=str(tmp_path))
    start_and_die(folder, order)
    family = await_family(tmp_path)
    Shim.adopt(folder).renew(boot_clock() + 0.1)
    await eventually(lambda: not any(lives(member) for member in family))
    ended = await Shim.adopt(folder).wait()
    assert (ended.signal, ended.reason) == (signal.SIGKILL, "lease")
    assert list_carriers(order.token) == []


async def test_a_later_worker_takes_a_shim_over(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    order = a_script(FAMILY, cwd=str(tmp_path), note={"task": "7.1", "attempt": 2})
    start_and_die(folder, order)
    family = await_family(tmp_path)
    adopted = Shim.adopt(folder)
    assert adopted.is_alive()
    assert (adopted.folder, adopted.token) == (folder, order.token)
    assert adopted.note == {"task": "7.1", "attempt": 2}
    first = boot_clock() + 0.5
    adopted.renew(first)
    adopted.renew(first + 600)
    await eventually(lambda: boot_clock() > first + 0.1)
    assert all(lives(member) for member in family)
    adopted.hard()
    assert (await adopted.wait()).reason == "hard"
    assert not any(lives(member) for member in family)


async def test_an_end_that_nobody_watched_is_known_later(tmp_path: Path) -> None:
    start_and_die(tmp_path, a_script("exit 9"))
    await eventually(lambda: not Shim.adopt(tmp_path).is_alive())
    adopted = Shim.adopt(tmp_path)
    assert adopted.has_started()
    assert (await adopted.wait()).exit_code == 9
    assert (await adopted.wait()).exit_code == 9


@pytest.mark.parametrize("cgroups", [True, False])
async def test_what_a_killed_shim_leaves_is_ended_and_said(tmp_path: Path, cgroups: bool) -> None:
    folder = tmp_path / "folder"
    order = a_script(FAMILY, cwd=str(tmp_path), cgroups=cgroups)
    async with running(folder, order) as started:
        family = await_family(tmp_path)
        await eventually(started.has_started)
        find_shim(folder).kill()
        ended = await started.wait()
        assert not any(lives(member) for member in family)
    assert (ended.exit_code, ended.signal, ended.reason) == (None, None, "shim_lost")
    assert ended.error == "its shim was lost, so it was killed"
    assert ended.started_at is not None
    assert await Shim.adopt(folder).wait() == ended


async def test_a_command_dies_with_its_shim_even_if_nobody_looks(tmp_path: Path) -> None:
    start_and_die(tmp_path, an_order("sleep", "600"))
    process = find_shim(tmp_path)
    (sleeper,) = await eventually(process.children)
    await eventually(Shim.adopt(tmp_path).has_started)
    process.kill()
    await eventually(lambda: not lives(sleeper))
    assert (await Shim.adopt(tmp_path).wait()).reason == "shim_lost"


async def test_a_shim_that_is_stuck_past_its_deadline_is_killed_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_handle, "OVERDUE_SECONDS", 0.1)
    monkeypatch.setattr(shim_handle, "POLL_SECONDS", 0.05)
    folder = tmp_path / "folder"
    async with running(folder, a_script(FAMILY, cwd=str(tmp_path))) as started:
        family = await_family(tmp_path)
        find_shim(folder).suspend()
        started.renew(boot_clock() + 0.1)
        assert (await started.wait()).reason == "shim_lost"
        assert not any(lives(member) for member in family)


@pytest.mark.parametrize("name", [shim_folder.EXIT, shim_folder.STARTED, shim_folder.CGROUP])
@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[1", b'"holdfast-\\u0000"', b'{"error": "\xff"}', b'{"a":' * 100_000]
)
async def test_an_end_that_the_command_has_spoiled_is_a_lost_one(
    tmp_path: Path, text: bytes, name: str
) -> None:
    async with running(tmp_path, a_script("exit 0")) as started:
        await started.wait()
        (tmp_path / shim_folder.EXIT).unlink()
        (tmp_path / name).write_bytes(text)
        assert (await started.wait()).reason == "shim_lost"


SPOILING = {
    "a folder": "mkdir {path}",
    "a pipe": "mkfifo {path}",
    "a link to what has no end": "ln -s /dev/zero {path}",
    "a link to itself": "ln -s {path} {path}",
}


@pytest.mark.parametrize("spoil", SPOILING.values(), ids=SPOILING)
@pytest.mark.parametrize(
    "name",
    [
        shim_folder.EXIT,
        f"{shim_folder.EXIT}.new",
        shim_folder.STARTED,
        shim_folder.CGROUP,
        shim_folder.LOG,
        shim_folder.LOCK,
        shim_folder.ALIVE,
    ],
)
async def test_whatever_a_command_makes_of_its_folder_its_end_is_found(
    tmp_path: Path, name: str, spoil: str
) -> None:
    folder = tmp_path / "folder"
    script = f"rm -f {folder / name}; {spoil.format(path=folder / name)}; kill -9 $PPID; sleep 600"
    async with asyncio.timeout(60), running(folder, a_script(script)) as started:
        assert (await started.wait()).reason == "shim_lost"


async def test_a_file_where_a_pipe_was_is_looked_at_again_and_leaves_no_descriptor(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    await run(tmp_path / "first", a_script("exit 0"))  # threads of the pool are there to stay
    before = len(os.listdir("/proc/self/fd"))
    alive = folder / shim_folder.ALIVE
    script = f"rm {alive}; touch {alive} made; exec sleep 600"
    async with running(folder, a_script(script, cwd=str(tmp_path))) as started:
        await eventually((tmp_path / "made").exists)
        waiting = asyncio.create_task(started.wait())
        assert not (await asyncio.wait([waiting], timeout=0.1))[0]
        started.hard()
        assert (await waiting).reason == "hard"
    assert len(os.listdir("/proc/self/fd")) == before


async def test_an_order_whose_shim_never_came_is_lost_and_not_carried_out_later(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    order = a_script("touch made", cwd=str(tmp_path))
    (folder / shim_folder.ORDER).write_bytes(msgspec.json.encode(order))
    for name in (shim_folder.CONTROL, shim_folder.ALIVE):
        os.mkfifo(folder / name)
    adopted = Shim.adopt(folder)
    assert not adopted.is_alive()
    ended = await adopted.wait()
    assert (ended.reason, ended.started_at) == ("shim_lost", None)
    assert run_shim(folder) == ""
    assert not adopted.has_started()
    assert not (tmp_path / "made").exists()


async def test_words_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, an_order("sleep", "600")) as started:
        with pytest.raises(Invalid):
            started.renew(math.nan)
        for grace in (-1, math.inf):
            with pytest.raises(Invalid):
                started.soft(grace)
        assert started.is_alive()


@pytest.mark.parametrize("text", [None, "", "[]", '{"token": 5}', "[" * 100_000])
def test_a_folder_without_an_order_cannot_be_adopted(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / shim_folder.ORDER).write_text(text)
    with pytest.raises(Invalid) as refused:
        Shim.adopt(tmp_path)
    assert refused.value.field == "folder"


def test_an_order_that_has_become_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / shim_folder.ORDER)
    with pytest.raises(Invalid, match="is not a file"):
        Shim.adopt(tmp_path)


async def test_an_environment_need_not_be_unicode(tmp_path: Path) -> None:
    strange = os.fsdecode(b"\xff\xfe")
    order = a_script('printf %s "$STRANGE"', environment={**PATH, "STRANGE": strange})
    assert (await run(tmp_path, order)).exit_code == 0
    assert (tmp_path / shim_folder.OUTPUT).read_bytes() == b"\xff\xfe"
    assert Shim.adopt(tmp_path).token == order.token


async def test_a_wait_that_was_cancelled_can_be_taken_up_again(tmp_path: Path) -> None:
    async with running(tmp_path, an_order("sleep", "600")) as started:
        waiting = asyncio.create_task(started.wait())
        await eventually(started.has_started)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        started.hard()
        assert (await started.wait()).reason == "hard"


async def test_the_loop_neither_starts_shims_nor_looks_for_what_they_left(tmp_path: Path) -> None:
    with noting_blocking_calls() as calls:
        async with running(tmp_path / "folder", an_order("sleep", "600")) as started:
            await eventually(started.has_started)
            find_shim(tmp_path / "folder").kill()
            assert (await started.wait()).reason == "shim_lost"
    assert {name for name, _ in calls} == {"subprocess.Popen", "os.listdir"}
    assert threading.get_ident() not in {thread for _, thread in calls}


async def test_no_zombie_and_no_descriptor_is_left_of_a_shim(tmp_path: Path) -> None:
    await run(tmp_path / "first", a_script("exit 0"))  # threads of the pool are there to stay
    before = len(os.listdir("/proc/self/fd"))
    children = {child.pid for child in psutil.Process().children()}  # left by other tests
    await run(tmp_path / "second", a_script("exit 0"))
    assert len(os.listdir("/proc/self/fd")) == before
    assert {child.pid for child in psutil.Process().children()} <= children


async def test_the_folder_of_a_shim_that_runs_is_not_removed(tmp_path: Path) -> None:
    async with running(tmp_path, an_order("sleep", "600")) as started:
        with pytest.raises(AssertionError):
            started.remove()
        assert json.loads((tmp_path / shim_folder.ORDER).read_text())["argv"] == [
            "sleep",
            "600",
        ]
