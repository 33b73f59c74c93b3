"""Commands in the docs are the program's, and the lists of commands, flags and calls are whole."""

import re
from pathlib import Path

import pytest

from holdfast.cli.app import app
from holdfast.client.client import Client
from holdfast.client.namespaces.namespace import Namespace
from tests.page_commands import NAMES, ROOT, commands_in, find_problem

DOCS = ROOT / "docs"
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    if commands_in(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_are_the_programs(page: Path) -> None:
    told = commands_in(page.read_text(encoding="utf-8"))
    assert [problem for words in told if (problem := find_problem(words))] == []


def test_commands_are_found_and_others_than_the_programs_are_refused() -> None:
    text = "so `holdfast task 1.0`:\n$ holdfast jobs --json | head -1\n`holdfast COMMAND`"
    assert commands_in(text) == [["task", "1.0"], ["jobs", "--json"]]
    assert find_problem(["task", "1.0"]) is None
    assert find_problem(["task"]) is None
    assert find_problem(["task", "explain"]) is not None
    assert find_problem(["limits", "set", "one", "--most", "1"]) is not None
    assert find_problem(["nonsense"]) is not None
    assert {page.stem for page in PAGES} >= {"order", "tasks", "limits", "schedules", "operating"}


def test_the_page_of_the_command_line_has_every_command_and_all_that_describes_a_job() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert [name for name in sorted(NAMES) if not re.search(rf"`{name}\b", page)] == []
    for command in ("run", "submit"):
        arguments = app[command].assemble_argument_collection()
        flags = [argument.names[0] for argument in arguments if argument.names[0].startswith("--")]
        assert len(flags) > 20
        assert [flag for flag in flags if not re.search(rf"{flag}\b", page)] == []


async def test_the_page_of_the_client_has_every_call_by_subject() -> None:
    page = (DOCS / "client.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `client\.(\w+)` \| (.*) \|$", page, re.MULTILINE))
    async with Client("http://127.0.0.1:1") as client:
        subjects = {
            name: {each for each in dir(type(value)) if not each.startswith("_")}
            for name, value in vars(client).items()
            if isinstance(value, Namespace)
        }
    assert rows.keys() == subjects.keys()
    for name, calls in subjects.items():
        assert set(re.findall(r"`(\w+)`", rows[name])) == calls - {"loop_thread"}, name
    assert "`client.signal(" in page
