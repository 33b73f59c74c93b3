"""`dashboard/chromium.py`: where it looks for a browser."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "dashboard" / "chromium.py"


def find(path: Path, **variables: str) -> str:
    """Look with a path of our own, and without what playwright may have downloaded."""
    own = {"PATH": str(path), "PLAYWRIGHT_BROWSERS_PATH": str(path / "none"), **variables}
    known = {name: text for name, text in os.environ.items() if name != "HOLDFAST_CHROMIUM"}
    found = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**known, **own},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return found.stdout.strip()


def test_a_browser_is_found_by_its_name_or_on_the_path(tmp_path: Path) -> None:
    assert find(tmp_path) == ""
    for name in ("google-chrome", "mine"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find(tmp_path) == str(tmp_path / "google-chrome")
    assert find(tmp_path, HOLDFAST_CHROMIUM=str(tmp_path / "mine")) == str(tmp_path / "mine")
    assert find(tmp_path, HOLDFAST_CHROMIUM="/nowhere/chromium") == ""
