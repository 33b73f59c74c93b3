"""Settings: the flag, then the variable, then holdfast.toml; and what a file may not say."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.settings import DEFAULTS, FILE, SHARED, forget_empty_variables, load_file
from holdfast.errors import Invalid
from tests.cli.conftest import Service
from tests.cli.program import PROGRAM, Ended, environment

NOBODY = "postgresql://127.0.0.1:1/nothing"
Write = Callable[[str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write holdfast.toml into the folder that the commands of the test run in."""
    monkeypatch.chdir(tmp_path)

    def write_file(text: str) -> None:
        (tmp_path / FILE).write_text(text)

    return write_file


def run(*arguments: str, **variables: str) -> Ended:
    """Run the program in the current folder."""
    ended = subprocess.run(
        [PROGRAM, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_the_flag_wins_over_the_variable_and_the_variable_over_the_file(
    write: Write, database_url: str
) -> None:
    write(f"[db.status]\ndatabase-url = {json.dumps(NOBODY)}\n")
    assert "cannot connect" in run("db", "status").err
    variable = {"HOLDFAST_DATABASE_URL": database_url}
    assert run("db", "status", **variable).code == 0
    flag = f"--database-url={NOBODY}"
    assert "cannot connect" in run("db", "status", flag, **variable).err


def test_defaults_are_for_every_command_that_has_such_a_flag(
    write: Write, service: Service, database_url: str
) -> None:
    write(f'[{DEFAULTS}]\nserver = "{service.url}"\ndatabase-url = "{database_url}"\n')
    assert run("jobs", "--json").code == 0
    assert run("queues", "--json").code == 0
    assert run("db", "check").code == 0


def test_a_commands_own_section_wins_over_the_defaults(write: Write, service: Service) -> None:
    write(f'[jobs]\nserver = "{service.url}"\n[{DEFAULTS}]\nserver = "ftp://nowhere"\n')
    assert run("jobs", "--json").code == 0
    assert "ftp://nowhere" in run("queues").err


def test_lists_and_numbers_of_the_file_arrive_as_such(write: Write) -> None:
    write('[worker]\nqueue = ["a", "b"]\nimport = ["no_such_module"]\nconcurrency = 3\n')
    assert "'no_such_module' cannot be imported" in run("worker").err
    write("[worker]\nconcurrency = 0\n")
    assert "concurrency: is 0" in run("worker").err


def test_variables_hold_lists_as_words(write: Write) -> None:
    ended = run("worker", HOLDFAST_IMPORTS="json no_such_module")
    assert "'no_such_module' cannot be imported" in ended.err


def test_a_file_may_be_named(write: Write, tmp_path: Path) -> None:
    write("[jobs]\nlimit = 0\n")
    other = tmp_path / "other.toml"
    other.write_text("[jobs]\nlimit = -7\n")
    assert "limit: is 0" in run("jobs").err
    assert "limit: is -7" in run("jobs", HOLDFAST_CONFIG=str(other)).err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[jobs]\nlimt = 3\n", "limt"),
        ("[wroker]\nqueue = []\n", "[wroker]"),
        ("[defaults]\nsever = 'x'\n", "'sever'"),
        ("[defaults]\nqueue = 'x'\n", "'queue'"),
        ("defaults = 3\n", "[defaults]"),
        ("jobs = 3\n", "[jobs]"),
        ("[jobs]\nlimit = 'many'\n", "[limit]"),
        ("[jobs\n", "line 1"),
    ],
)
def test_a_file_that_says_what_it_cannot_is_an_error_that_names_it(
    write: Write, text: str, named: str
) -> None:
    write(text)
    ended = run("jobs")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("holdfast: ")
    assert ended.err.count("\n") == 1
    assert named in ended.err
    assert FILE in ended.err


def test_a_named_file_must_be_there_and_readable(tmp_path: Path) -> None:
    missing = run("jobs", HOLDFAST_CONFIG=str(tmp_path / "none.toml"))
    assert (missing.code, "there is no file" in missing.err) == (2, True)
    folder = run("jobs", HOLDFAST_CONFIG=str(tmp_path))
    assert (folder.code, "cannot be read" in folder.err) == (2, True)


def test_a_file_that_is_no_text_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "binary"))
    with pytest.raises(Invalid, match="cannot be read"):
        load_file()


def test_a_variable_that_is_no_number_is_named() -> None:
    ended = run("server", HOLDFAST_PORT="many")
    assert (ended.code, ended.out) == (2, "")
    assert "HOLDFAST_PORT" in ended.err


def test_a_variable_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SERVER", "")
    monkeypatch.setenv("HOLDFAST_QUEUES", "a")
    monkeypatch.setenv("OTHER", "")
    forget_empty_variables()
    assert "HOLDFAST_SERVER" not in os.environ
    assert os.environ["HOLDFAST_QUEUES"] == "a"
    assert os.environ["OTHER"] == ""


def test_what_defaults_may_say_are_flags_of_some_command() -> None:
    text = run("server", "--help").out + run("worker", "--help").out
    for key in SHARED:
        assert f"--{key}" in text
