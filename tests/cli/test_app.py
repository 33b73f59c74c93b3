"""The command line as a whole: help, version, exit codes, and errors in one line."""

import subprocess
import sys

import pytest

from holdfast.cli.app import main
from tests.cli.program import PROGRAM, environment, run

HEAVY_MODULES = ("asyncpg", "asyncio", "msgspec", "holdfast.embedded", "holdfast.operations")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments: list[str]) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.err) == (0, "")
    for command in ("audit", "db", "demo"):
        assert f" {command} " in ended.out


@pytest.mark.parametrize(
    "command", [["db"], ["db", "migrate"], ["db", "status"], ["db", "check"], ["audit"], ["demo"]]
)
def test_every_command_explains_itself(command: list[str]) -> None:
    ended = run(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"Usage: holdfast {' '.join(command)}" in ended.out


def test_version() -> None:
    ended = run("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("holdfast ")


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["db", "frobnicate"], ["audit", "--frobnicate"], ["demo", "frobnicate"]],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("holdfast: ")
    assert "frobnicate" in ended.err


def test_help_imports_nothing_that_only_a_command_needs() -> None:
    script = (
        "import sys; from holdfast.cli.app import main; main(['--help']); "
        f"sys.exit(sum(name in sys.modules for name in {HEAVY_MODULES!r}))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize("command", ["--help", "db status --json"])
def test_output_that_nobody_reads_is_no_error(command: str, database_url: str) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{PROGRAM} {command} | true"],
        env=environment(HOLDFAST_DATABASE_URL=database_url),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == ""


def test_output_that_cannot_be_written_is_one_line_and_exit_code_2(database_url: str) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{PROGRAM} db status --json >/dev/full"],
        env=environment(HOLDFAST_DATABASE_URL=database_url),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("holdfast: ")
    assert "No space left" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_main_returns_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert main(["frobnicate"]) == 2
    assert capsys.readouterr().err.startswith("holdfast: ")
