"""Modules of `--import`: what goes wrong in one is said in a line that names the place."""

from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.cli.imports import import_modules, try_imports
from holdfast.errors import Invalid
from tests.cli.program import run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, and the only one where modules are found beside the library."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # so that what is changed is put back
    return tmp_path


def write_module(folder: Path, text: str) -> str:
    """Write a module that nobody has imported; gives its name."""
    name = f"m{uuid4().hex[:8]}"
    (folder / f"{name}.py").write_text(text)
    return name


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("import os\ndef f(:\n    pass\n", 2, "SyntaxError: invalid syntax"),
        ("import no_such_thing\n", 1, "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("from os import nothing_so\n", 1, "ImportError: cannot import name 'nothing_so'"),
        ("\nimport json\njson.loads('{')\n", 3, "JSONDecodeError: Expecting property name"),
        ("import os\n\nos.environ['NOT_SET']\n", 3, "KeyError: 'NOT_SET'"),
        ("import sys\nsys.exit(5)\n", 2, "SystemExit: 5"),
    ],
)
def test_what_goes_wrong_is_said_with_its_place(
    here: Path, text: str, line: int, problem: str
) -> None:
    name = write_module(here, text)
    caller = write_module(here, f"import {name}\n")
    for each in (name, caller):
        with pytest.raises(Invalid) as caught:
            import_modules([each])
        said = f"--import: {each!r} cannot be imported: {here / name}.py, line {line}: {problem}"
        assert str(caught.value).startswith(said)
        assert "\n" not in str(caught.value)


def test_a_module_that_is_not_there_says_where_it_was_looked_for(here: Path) -> None:
    with pytest.raises(Invalid, match="No module named 'no_such_thing'; it is looked for in this"):
        import_modules(["no_such_thing"])


def test_modules_are_found_in_the_current_folder(here: Path) -> None:
    assert try_imports([write_module(here, "print('hello')\n")])


def test_a_worker_with_one_that_is_broken_is_one_line_and_exit_code_2(here: Path) -> None:
    name = write_module(here, "def f(:\n")
    ended = run("worker", f"--import={name}")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"holdfast: --import: {name!r} cannot be imported: {here / name}.py, line 1: "
        "SyntaxError: invalid syntax\n"
    )


def test_a_try_says_what_the_module_said(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = write_module(here, "import sys\nsys.stderr.write('so \\x1b\\n')\nraise ValueError(1)\n")
    assert not try_imports([name])
    assert capfd.readouterr().err == (
        f"so \\x1b\nholdfast: --import: {name!r} cannot be imported: {here / name}.py, line 3: "
        "ValueError: 1\n"
    )
