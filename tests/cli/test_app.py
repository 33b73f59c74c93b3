"""The command line as a whole: help, version, exit codes, and errors in one line."""

import subprocess
import sys

import pytest

from holdfast.cli.app import COMMANDS, exit_code_of, main
from holdfast.errors import (
    HoldfastError,
    IllegalMove,
    Invalid,
    KeyReused,
    NotFound,
    Refused,
    Unavailable,
)
from tests.cli.conftest import Service
from tests.cli.program import PROGRAM, environment, run, run_anew

HEAVY_MODULES = ("asyncpg", "asyncio", "msgspec", "holdfast.embedded", "holdfast.operations")
SERVER_MODULES = ("asyncpg", "boto3", "starlette", "uvicorn", "uvloop", "holdfast.operations")
NAMES = [name for group in COMMANDS.values() for name, *_ in group]
SUBCOMMANDS = [
    *(["db", name] for name in ("migrate", "status", "check")),
    *(["queues", name] for name in ("pause", "resume")),
    *(["endpoint", name] for name in ("get", "register", "remove")),
    *(["dead-letters", name] for name in ("show", "replay", "discard")),
    *(["types", name] for name in ("list", "show", "set", "unset", "history")),
    ["workers", "drain"],
]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments: list[str]) -> None:
    ended = run_anew(*arguments)
    assert (ended.code, ended.err) == (0, "")
    for command in NAMES:
        assert f" {command} " in ended.out


@pytest.mark.parametrize("command", [*([name] for name in NAMES), *SUBCOMMANDS], ids=" ".join)
def test_every_command_explains_itself(command: list[str]) -> None:
    ended = run(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"Usage: holdfast {' '.join(command)}" in ended.out
    for line in ended.out.splitlines():
        assert len(line) <= 80


def test_version() -> None:
    ended = run_anew("--version")
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


def test_a_command_that_asks_a_server_imports_nothing_of_one(service: Service) -> None:
    script = (
        "import sys; from holdfast.cli.app import main; code = main(['jobs', '--json']); "
        f"sys.exit(code + sum(name in sys.modules for name in {SERVER_MODULES!r}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(HOLDFAST_SERVER=service.url),
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("job", 7), 1),
        (KeyReused("k", 7), 1),
        (IllegalMove("task 7.0", "KILLED", "cancel"), 1),
        (Invalid("queue", "is wrong"), 2),
        (Refused("not Holdfast"), 2),
        (Unavailable("away"), 2),
    ],
)
def test_an_answer_of_no_is_told_from_a_question_that_could_not_be_asked(
    error: HoldfastError, code: int
) -> None:
    assert exit_code_of(error) == code


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
