"""The README's example runs as it stands and prints what the README says."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """List the README's blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_the_readme_says(database_url: str) -> None:
    [example], [output] = blocks("python"), blocks("text")
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        env=os.environ | {"HOLDFAST_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, output, "")


def test_the_example_is_short() -> None:
    [example] = blocks("python")
    assert len(example.splitlines()) <= 26


def test_the_commands_it_begins_with_are_those_of_run() -> None:
    usage = subprocess.run(
        ["./run", "help"],
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in re.findall(r"^\./run (\w+)", README, re.MULTILINE):
        assert f"\n  {command} " in usage
