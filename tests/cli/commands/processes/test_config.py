"""`config show`: each setting with its value and where it comes from; nothing secret, no slips."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Ended, run

FILE = """
[defaults]
server = "http://token:x@h:1"
[server]
retention-days = 3
live-tasks-max = 7
database-url = "postgresql://u:hidden@h/d?sslpassword=hidden"
[worker]
queue = ["a", "b\\u001b[2J"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(FILE)
    return path


def show(*arguments: str, **variables: str) -> Any:
    """Show settings; gives them by command and name."""
    ended = run("config", "show", "--json", *arguments, **variables)
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)["settings"]
    return {
        name: {each["setting"]: (each["value"], each["source"]) for each in settings}
        for name, settings in found.items()
    }


def test_each_setting_says_where_it_comes_from_and_the_flag_wins(file: Path) -> None:
    variables = {"HOLDFAST_CONFIG": str(file), "HOLDFAST_PORT": "9000", "HOLDFAST_HOST": "::1"}
    found = show("server", "--port", "80", **variables)["server"]
    assert found["--port"] == ("80", "flag")
    assert found["--host"] == ("::1", "variable HOLDFAST_HOST")
    assert found["--retention-days"] == ("3", f"file {file}")
    assert found["--live-tasks-max"] == ("7", f"file {file}")
    assert found["--connections-max"] == ("10000", "default")
    assert found["--tls-cert"] == (None, "default")
    assert found["--database-url"] == ("postgresql://u@h/d", f"file {file}")


def test_without_a_command_those_of_server_worker_and_client_are_shown(file: Path) -> None:
    variables = {"HOLDFAST_CONFIG": str(file), "HOLDFAST_TOKEN": "hidden"}
    ended = run("config", "show", **variables)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"file: {file}\n\nserver\n")
    assert "hidden" not in ended.out
    assert "token:x" not in ended.out
    assert "\x1b" not in ended.out
    found = show(**variables)
    assert found.keys() == {"server", "worker", "client"}
    assert found["worker"]["--queue"][1] == f"file {file}"
    assert found["client"]["--server"] == ("http://h:1", f"file {file}")
    assert found["client"]["HOLDFAST_TOKEN"] == ("***", "variable HOLDFAST_TOKEN")
    assert found["client"]["HOLDFAST_CA_FILE"] == (None, "default")
    assert show("db", "status")["db status"]["--database-url"] == (None, "default")
    assert show("job")["job"]["--server"] == ("http://127.0.0.1:7878", "default")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[worker]\nconcurency = 3\n", ("[worker]", "[concurency]", "--concurrency")),
        ("[db.stats]\nx = 3\n", ("[db.stats]", 'Did you mean "status"')),
        ("[wrker]\nx = 3\n", ("[wrker]", "did you mean [worker]?")),
        ("[defaults]\nsever = 'x'\n", ("'sever'", "did you mean server?")),
        ("[server]\nport = 'many'\n", ("[server]", "[port]")),
    ],
)
def test_a_slip_anywhere_in_the_file_is_named_with_what_is_near(
    file: Path, text: str, named: tuple[str, ...]
) -> None:
    file.write_text(text)
    ended = run("config", "show", HOLDFAST_CONFIG=str(file))
    assert_refused(ended, str(file), *named)


def test_what_cannot_be_shown_is_refused() -> None:
    assert_refused(run("config", "show", "server", "--prt", "3"), '"--prt" of server')
    assert_refused(run("config", "show", "nonsense"), '"nonsense"')
    assert_refused(run("config", "show", "server", "--port", "many"), "--port")
    assert_refused(run("config", "show", HOLDFAST_PORT="many"), "HOLDFAST_PORT")


def assert_refused(ended: Ended, *words: str) -> None:
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 500
    for word in words:
        assert word in ended.err
