"""What a dead or a foreign server leaves behind."""

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres, PostgresUnavailable, binaries
from holdfast.embedded.folder import Folder
from holdfast.embedded.identity import choose_identity, run
from holdfast.embedded.launch import Order
from holdfast.embedded.postmaster import find_pid_file

from .users import bystander, kill_servers, list_servers, list_shared_memory, query, wait_for

FAST = {"fsync": "off"}


def leave_stale_files(folder: Path, pid: int) -> None:
    """Make a killed server's files claim that it has a certain pid."""
    with EmbeddedPostgres(folder, settings=FAST):
        kill_servers(folder)
    assert list_shared_memory(folder) != []
    for path in (folder / "cluster" / "postmaster.pid", folder / "socket" / ".s.PGSQL.5432.lock"):
        _, *rest = path.read_text().splitlines(keepends=True)
        path.write_text("".join([f"{pid}\n", *rest]))


def assert_starts(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST) as postgres:
        assert query(postgres.url(), "select 1") == 1
    assert list_servers(folder) == []
    assert list_shared_memory(folder) == []


def test_a_stale_pid_in_use_by_somebody_else_is_no_hindrance(folder: Path) -> None:
    with bystander() as other:
        leave_stale_files(folder, other.pid)
        assert_starts(folder)
        assert other.poll() is None


def test_a_stale_pid_of_a_zombie_is_no_hindrance(folder: Path) -> None:
    with subprocess.Popen(["true"]) as zombie:
        wait_for(lambda: os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT) is not None)
        leave_stale_files(folder, zombie.pid)
        assert_starts(folder)


def test_our_own_pid_in_a_stale_file_is_no_hindrance(folder: Path) -> None:
    leave_stale_files(folder, os.getpid())
    assert_starts(folder)


@pytest.mark.parametrize("text", ["", "\n", "nonsense\n", "12\n/x\n"])
def test_a_torn_pid_file_is_no_hindrance(folder: Path, text: str) -> None:
    leave_stale_files(folder, 1)
    (folder / "cluster" / "postmaster.pid").write_text(text)
    assert find_pid_file(Folder(folder)) is None
    assert_starts(folder)


def test_a_server_that_somebody_else_started_is_left_alone(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings=FAST):
        pass
    program, parts = binaries.get_binaries() / "postgres", Folder(folder)
    socket = ("-c", f"unix_socket_directories={folder}")
    order = Order(
        [str(program), "-D", str(parts.cluster), *("-c", "listen_addresses="), *socket],
        choose_identity(folder, program),
        str(folder),
        log=str(parts.log),
        server_lock=str(folder / "cluster" / "not-ours"),
        postmaster_lock=str(folder / "cluster" / "not-ours-either"),
    )
    run(order, 20)
    wait_for(lambda: (written := find_pid_file(parts)) is not None and written.is_ready)
    before = find_pid_file(parts)
    with pytest.raises(PostgresUnavailable, match="not started by Holdfast"):
        EmbeddedPostgres(folder, settings=FAST).start()
    assert find_pid_file(parts) == before
    assert list_servers(folder) != []
