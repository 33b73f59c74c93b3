"""What a worker finds on its disk when it starts: what can be taken over, and what cannot."""

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from holdfast.worker.placed.attempt import TakeoverRecord
from holdfast.worker.placed.shim_messages import ShimOrder
from holdfast.worker.placed.takeover import find_leftover
from holdfast.worker.processes import shim_folder
from holdfast.worker.processes.clock import boot_clock
from tests.waiting import eventually
from tests.worker.placed_orders import a_job
from tests.worker.shimmed import a_script, running


def a_note() -> dict[str, Any]:
    record = TakeoverRecord(
        task_id="7.2", attempt=3, lease_token=uuid4(), job=a_job(), began_at=boot_clock()
    )
    noted: dict[str, Any] = msgspec.to_builtins(record)
    return noted


def a_sleeper(**changes: Any) -> ShimOrder:
    return a_script("exec sleep 600", **changes)


async def test_what_runs_and_what_has_ended_is_taken_over(tmp_path: Path) -> None:
    note = a_note()
    async with running(tmp_path / "1", a_sleeper(note=note)) as shim:
        await eventually(shim.has_started)
        [attempt], is_all = find_leftover(tmp_path)
        assert is_all
        assert (attempt.key, attempt.state) == (("7.2", 3), "RUNNING")
        assert msgspec.to_builtins(attempt.record()) == note
        assert attempt.shim is not None
        assert attempt.shim.is_alive()
    [attempt], is_all = find_leftover(tmp_path)
    assert is_all
    assert attempt.shim is not None
    assert (await attempt.shim.wait()).reason == "hard"


def test_what_never_had_a_shim_is_removed(tmp_path: Path) -> None:
    (tmp_path / "1" / "work").mkdir(parents=True)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / shim_folder.ORDER).write_text("{")
    (tmp_path / "2" / shim_folder.LOCK).touch()
    (tmp_path / "a file").touch()
    assert find_leftover(tmp_path) == ([], True)
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


@pytest.mark.parametrize("spoiled", ["order", "note"])
async def test_what_runs_and_cannot_be_taken_over_is_known_to_run(
    tmp_path: Path, spoiled: str
) -> None:
    order = a_sleeper(note=a_note() if spoiled == "order" else {"of": "another version"})
    async with running(tmp_path / "1", order) as shim:
        if spoiled == "order":
            (tmp_path / "1" / shim_folder.ORDER).write_text("{")
        assert find_leftover(tmp_path) == ([], False)
        assert shim.is_alive()
    assert find_leftover(tmp_path) == ([], True)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_lock_that_has_become_something_else_may_be_held(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / "1" / shim_folder.LOCK
    lock.parent.mkdir()
    if kind == "folder":
        lock.mkdir()
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(lock)
    assert find_leftover(tmp_path) == ([], False)
    assert os.listdir(tmp_path) == ["1"]
