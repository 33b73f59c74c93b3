"""The dashboard's types of the API are those of the server."""

import subprocess
import sys
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parents[2] / "dashboard"


def test_types_are_those_that_the_server_describes(tmp_path: Path) -> None:
    made = tmp_path / "schema.ts"
    command = [sys.executable, str(DASHBOARD / "build.py"), "types", str(made)]
    subprocess.run(command, timeout=120, check=True)
    committed = (DASHBOARD / "src" / "api" / "schema.ts").read_text()
    assert made.read_text() == committed, "run ./run types, and commit what it writes"
