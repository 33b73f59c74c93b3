"""`holdfast demo`: what it shows, and that it leaves nothing behind."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.cli.program import finish, run, start
from tests.cli.test_target import processes_of


def left_behind(folder: Path) -> list[object]:
    """List what the demo has left in its temporary folder, and who still runs for it."""
    folders = [process.info["cwd"] for process in psutil.process_iter(["cwd"])]
    inside = [each for each in folders if each is not None and str(folder) in each]
    return [*folder.iterdir(), *processes_of(folder), *inside]


def test_the_demo_shows_its_jobs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    temporary, own = tmp_path / "t", tmp_path / "own"
    temporary.mkdir()
    ended = run("demo", TMPDIR=str(temporary), HOLDFAST_DATA_DIR=str(own))
    assert (ended.code, ended.err) == (0, "")
    words = ("succeeded", "dead_lettered", "killed", "worker_failed", "validation_failed")
    for word in (*words, "a sibling failed"):
        assert word in ended.out
    assert "Audit  sound" in ended.out
    assert max(len(line.rstrip()) for line in ended.out.splitlines()) <= 80
    assert left_behind(temporary) == []
    assert not own.exists()


def await_line(process: subprocess.Popen[str], text: str) -> None:
    """Read what a program writes up to a line."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the program ended before it wrote {text!r}")


@pytest.mark.nightly
@pytest.mark.parametrize("moment", ["Starting a Postgres", "placed on placed-3", "kill -9"])
def test_after_ctrl_c_nothing_is_left_either(tmp_path: Path, moment: str) -> None:
    process = start("demo", TMPDIR=str(tmp_path))
    await_line(process, moment)
    os.killpg(process.pid, signal.SIGINT)
    ended = finish(process)
    assert (ended.code, ended.err) == (130, "")
    assert left_behind(tmp_path) == []


@pytest.mark.nightly
def test_impatience_does_not_interrupt_the_cleanup(tmp_path: Path) -> None:
    process = start("demo", TMPDIR=str(tmp_path))
    await_line(process, "A flaky task")
    while process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    assert finish(process).code == 128 + signal.SIGTERM
    assert left_behind(tmp_path) == []
