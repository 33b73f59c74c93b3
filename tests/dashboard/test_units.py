"""The dashboard's own tests, of what needs no browser."""

import subprocess
import sys
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "dashboard" / "build.py"


def test_the_units_of_the_dashboard_work() -> None:
    command = [sys.executable, str(BUILD), "npm", "test"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
