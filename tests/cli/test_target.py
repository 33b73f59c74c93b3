"""Which database is meant: the flag, then the environment, then a Postgres of our own."""

import json
from pathlib import Path

import psutil
import pytest

from tests.cli.program import run

NOBODY_LISTENS = "postgresql://127.0.0.1:1/nothing"


def verdict_of(out: str) -> str:
    verdict: str = json.loads(out)["verdict"]
    return verdict


def test_the_flag_goes_before_the_environment(database_url: str) -> None:
    flag = f"--database-url={database_url}"
    ended = run("db", "status", "--json", flag, HOLDFAST_DATABASE_URL=NOBODY_LISTENS)
    assert (ended.code, ended.err, verdict_of(ended.out)) == (0, "", "current")


def test_the_environment_goes_before_a_postgres_of_our_own(
    database_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    ended = run(
        "db", "status", "--json", HOLDFAST_DATABASE_URL=database_url, HOLDFAST_DATA_DIR=str(folder)
    )
    assert (ended.code, ended.err, verdict_of(ended.out)) == (0, "", "current")
    assert not folder.exists()


def test_without_either_a_postgres_of_our_own_is_created_kept_and_stopped(tmp_path: Path) -> None:
    own = {"HOLDFAST_DATA_DIR": str(tmp_path / "own"), "HOLDFAST_DATABASE_URL": ""}
    first = run("db", "status", "--json", **own)
    assert (first.code, verdict_of(first.out)) == (0, "behind")
    assert "creating a Postgres in" in first.err
    assert str(tmp_path / "own") in first.err
    migrated = run("db", "migrate", **own)
    assert migrated.code == 0
    assert migrated.out.startswith("applied 0001 clock\n")
    assert "using the Postgres in" in migrated.err
    assert run("db", "check", **own).code == 0
    assert run("audit", **own).code == 0
    assert processes_of(tmp_path) == []


def processes_of(folder: Path) -> list[psutil.Process]:
    """List the processes that were started for something in a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        NOBODY_LISTENS,
        "postgresql://127.0.0.1:port/nothing",
        "postgresql://127.0.0.1:99999/nothing",
        "postgresql://127.0.0.1:1,127.0.0.1:port/nothing",
        "postgresql://[::1/nothing",
        "mysql://127.0.0.1/nothing",
        "postgresql://127.0.0.1/nothing?sslmode=perhaps",
    ],
)
@pytest.mark.parametrize("command", [["db", "migrate"], ["db", "check"], ["audit"]])
def test_a_database_that_cannot_be_reached_is_one_line_and_exit_code_2(
    command: list[str], url: str
) -> None:
    ended = run(*command, "--database-url", url)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("holdfast: ")
    assert ended.err.count("\n") == 1


def test_a_password_in_a_broken_url_is_not_repeated() -> None:
    ended = run("db", "check", HOLDFAST_DATABASE_URL="postgresql://me:top/secret@host/db")
    assert (ended.code, ended.out) == (2, "")
    assert "HOLDFAST_DATABASE_URL" in ended.err
    assert "top" not in ended.err
    assert "secret" not in ended.err


def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "somebody's.txt").write_text("not ours")
    ended = run("db", "status", HOLDFAST_DATA_DIR=str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert "is not empty and not Holdfast's" in ended.err
    assert "Traceback" not in ended.err


AWAY = "postgresql://db.invalid/x?connect_timeout=1"


@pytest.mark.parametrize("command", [["db", "check"], ["audit"], ["server", "--port=0"]])
def test_a_database_on_another_machine_needs_tls(command: list[str]) -> None:
    ended = run(*command, HOLDFAST_DATABASE_URL=AWAY)
    assert (ended.code, ended.out) == (2, "")
    assert "db.invalid is another machine" in ended.err
    assert "sslmode=verify-full" in ended.err
    trusted = run(*command, HOLDFAST_DATABASE_URL=AWAY, HOLDFAST_TRUST_DATABASE_NETWORK="1")
    assert trusted.code == 2
    assert "cannot connect to Postgres at db.invalid" in trusted.err


def test_a_server_may_be_told_that_the_network_is_trusted() -> None:
    flag = "--trust-database-network"
    ended = run("server", "--port=0", flag, HOLDFAST_DATABASE_URL=AWAY)
    assert "cannot connect to Postgres at db.invalid" in ended.err


def test_a_password_among_the_arguments_is_complained_of_and_not_repeated(
    database_url: str,
) -> None:
    url = database_url.replace("//postgres@", "//postgres:top-secret@")
    assert url != database_url
    shown = run("db", "status", "--json", "--database-url", url)
    assert (shown.code, verdict_of(shown.out)) == (0, "current")
    assert "set HOLDFAST_DATABASE_URL instead" in shown.err
    assert "top-secret" not in shown.err
    assert run("db", "status", "--json", HOLDFAST_DATABASE_URL=url).err == ""
