"""A run of tests that is ended leaves no process behind: no Postgres, no server, no worker."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.program import SECONDS_MAX, eventually
from tests.killing import kill_and_see_gone
from tests.tidy import ROOT

LINGERING = ROOT / "tests" / "cli" / "lingering.py"


@pytest.mark.parametrize(
    ("number", "whom", "workers"),
    [
        pytest.param(signal.SIGTERM, "main", 0, id="ended", marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, "main", 0, id="killed"),
        pytest.param(signal.SIGTERM, "main", 1, id="ended-above", marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, "main", 1, id="killed-above", marks=pytest.mark.nightly),
        pytest.param(signal.SIGTERM, "worker", 1, id="ended-below", marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, "worker", 1, id="killed-below", marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_is_ended_leaves_nothing(
    tmp_path: Path, number: signal.Signals, whom: str, workers: int
) -> None:
    report = tmp_path / "report.json"
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    options = ["-p", "no:cacheprovider", "-n", str(workers), "--max-worker-restart=0"]
    with open(tmp_path / "log", "wb") as log:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, str(LINGERING)],
            cwd=ROOT,
            env={**own, "LINGERING_REPORT": str(report)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started: list[psutil.Process] = []
    try:
        eventually(lambda: report.exists() or run.poll() is not None)
        written = json.loads(report.read_text())
        started = [psutil.Process(pid) for pid in written["pids"]]
        names = [" ".join(each.cmdline()) for each in started]
        for word in ("postgres", "holdfast server", "holdfast worker", "sleep 600"):
            assert any(word in name for name in names), names
        os.kill(run.pid if whom == "main" else written["worker"], number)
        code = run.wait(SECONDS_MAX)
        if whom == "main":
            in_order = number == signal.SIGTERM
            assert code == (pytest.ExitCode.INTERRUPTED if in_order else -number)
        _, alive = psutil.wait_procs(started, SECONDS_MAX)
        assert not alive, (tmp_path / "log").read_text()
    finally:
        kill_and_see_gone(run.pid, *(each.pid for each in started))
        run.wait()
