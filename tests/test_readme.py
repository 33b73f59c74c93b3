"""The README's example runs as it stands and prints what the README says."""

import re
import subprocess
from pathlib import Path

from tests.guides import ROOT, reading
from tests.test_guides import free_port

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    example = README[README.index("## An example") : README.index("## What is there")]
    with reading(tmp_path, free_port()) as reader:
        reader.follow(example)


def test_the_example_is_short() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert sum(len(block.splitlines()) for block in blocks) <= 20


def test_the_commands_it_begins_with_are_those_of_run() -> None:
    usage = subprocess.run(
        ["./run", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in re.findall(r"^\./run (\w+)", README, re.MULTILINE):
        assert f"\n  {command} " in usage
