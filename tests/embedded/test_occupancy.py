"""One `up` per folder: who comes second is told who has it; who is killed has it no longer."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.embedded import Occupied, occupy

HOLD = """
import sys
from pathlib import Path
from holdfast.embedded import occupy
with occupy(Path(sys.argv[1])) as note_address:
    note_address("http://127.0.0.1:7878")
    print(flush=True)
    sys.stdin.read()
"""


def test_who_comes_second_is_told_who_has_it_until_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        first.stdout.readline()
        with pytest.raises(Occupied) as caught, occupy(folder):
            pass
        holder = f"pid {first.pid}, serving at http://127.0.0.1:7878."
        assert caught.value.problem.endswith(holder)
        assert f"`kill {first.pid}`" in caught.value.remedy
        first.kill()
        first.wait()
        with occupy(folder):  # and nothing is left of what that one noted
            assert (folder / "up.lock").read_bytes() == b""


def test_a_child_does_not_have_it(tmp_path: Path) -> None:
    with occupy(tmp_path):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        with occupy(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
