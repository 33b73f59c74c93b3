"""Postgres runs for root and for others, with an account and without, with namespaces and without.

Where the tests themselves run as a normal user, root's ways that need another uid cannot be gone.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from .conftest import House
from .users import User, clean_up, kill_servers, list_servers

IS_ROOT = os.geteuid() == 0
NOBODY = 65534
NO_ACCOUNT = 54321  # nobody has given this number a name
AS_ROOT = [] if IS_ROOT else ["--root-in-namespace"]


def as_user(house: House, folder: Path, *options: str, uid: int) -> User:
    process = {"user": uid, "group": uid, "extra_groups": []} if IS_ROOT else {}
    return User(
        folder,
        f"--binaries={house.binaries}",
        *options,
        python=str(house.python),
        program=house.program,
        code=house.code,
        cwd="/",
        **process,
    )


def a_folder(house: House, *, uid: int) -> Path:
    folder = house.path / "pg"
    folder.mkdir(mode=0o700)
    if IS_ROOT:
        os.chown(folder, uid, uid)
    return folder


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """Give a folder that only its owner may enter, as /root is."""
    tmp_path.chmod(0o700)
    yield tmp_path
    clean_up(tmp_path)


def test_root_runs_postgres_in_a_closed_folder_without_changing_owners_or_modes(
    closed: Path,
) -> None:
    before = [(path.stat().st_mode, path.stat().st_uid) for path in closed.parents]
    with User(closed / "pg", *AS_ROOT) as root:
        pid = root.ask("start")
        root.ask("create")
        assert psutil.Process(pid).uids().real == os.geteuid()
        assert "CapEff:\t0000000000000000\n" in Path(f"/proc/{pid}/status").read_text()
        assert root.ask("start") == pid
        root.ask("stop")
        assert list_servers(closed) == []
    assert (closed / "pg" / "cluster").stat().st_uid == os.geteuid()
    assert [(path.stat().st_mode, path.stat().st_uid) for path in closed.parents] == before


@pytest.mark.parametrize("uid", [NOBODY, NO_ACCOUNT] if IS_ROOT else [os.geteuid()])
def test_a_user_runs_postgres_with_or_without_an_account(house: House, uid: int) -> None:
    folder = a_folder(house, uid=uid)
    with as_user(house, folder, uid=uid) as user, as_user(house, folder, uid=uid) as other:
        pid = user.ask("start")
        user.ask("create")
        assert psutil.Process(pid).uids().real == uid
        assert other.ask("start") == pid
        user.ask("stop")
        assert list_servers(folder) != []
        other.ask("stop")
        assert list_servers(folder) == []


def test_a_folder_that_may_not_be_written_to_is_refused(house: House) -> None:
    folder = house.path / "parent" / "pg"
    folder.parent.mkdir(mode=0o500)
    if IS_ROOT:
        os.chown(folder.parent, NOBODY, NOBODY)
    with as_user(house, folder, uid=NOBODY) as user:
        message = user.fail("start")
    assert str(folder) in message
    assert "Permission denied" in message
    assert "HOLDFAST_DATA_DIR" in message


def test_a_folder_that_may_not_be_read_is_refused(house: House) -> None:
    folder = a_folder(house, uid=NOBODY)
    folder.chmod(0o000)
    with as_user(house, folder, uid=NOBODY) as user:
        message = user.fail("start")
    folder.chmod(0o700)
    assert str(folder) in message
    assert "Permission denied" in message


if IS_ROOT:

    @pytest.mark.parametrize("uid", [NOBODY, NO_ACCOUNT])
    def test_root_runs_postgres_as_the_owner_of_the_folder_who_can_go_on(
        house: House, uid: int
    ) -> None:
        folder = a_folder(house, uid=uid)
        with User(folder, f"--binaries={house.binaries}") as root:
            pid = root.ask("start")
            assert psutil.Process(pid).uids().real == uid
            with as_user(house, folder, uid=uid) as owner:
                assert owner.ask("start") == pid
                root.ask("stop")
        assert list_servers(folder) == []
        with as_user(house, folder, uid=uid) as owner:
            owner.ask("start")
        assert {path.stat().st_uid for path in folder.rglob("*")} == {uid}

    def test_where_namespaces_are_forbidden_root_gives_the_folder_to_nobody(house: House) -> None:
        folder = house.path / "pg"
        options = [f"--binaries={house.binaries}"]
        with User(folder, *options, "--forbid-namespaces") as root, User(folder, *options) as other:
            pid = root.ask("start")
            root.ask("create")
            assert psutil.Process(pid).uids().real == NOBODY
            assert other.ask("start") == pid
            root.ask("stop")
            assert list_servers(folder) != []
            other.ask("stop")
            assert list_servers(folder) == []
        assert folder.stat().st_uid == NOBODY
        assert house.path.stat().st_uid == 0

    def test_a_folder_made_in_a_namespace_works_on_when_they_are_forbidden_and_back(
        house: House,
    ) -> None:
        folder = house.path / "pg"
        way = [f"--binaries={house.binaries}"]
        for options in (way, [*way, "--forbid-namespaces"], way):
            with User(folder, *options) as root:
                root.ask("start")
                root.ask("create")
                kill_servers(folder)
                root.ask("start")
        assert list_servers(folder) == []

    def test_a_folder_that_nobody_cannot_reach_is_named_and_left_as_it_was(
        house: House, closed: Path
    ) -> None:
        with User(closed / "pg", f"--binaries={house.binaries}", "--forbid-namespaces") as root:
            message = root.fail("start")
        barrier = next(path for path in reversed(closed.parents) if not path.stat().st_mode & 1)
        assert f"may not enter {barrier}" in message
        assert "HOLDFAST_DATABASE_URL" in message
        assert (closed / "pg").stat().st_uid == 0

    def test_who_may_not_signal_the_server_says_so_and_leaves_it(house: House) -> None:
        folder = house.path / "pg"
        options = [f"--binaries={house.binaries}", "--forbid-namespaces"]
        # Two namespaces side by side: neither root has any power over what the other started.
        with User(folder, *options) as starter, User(folder, *options) as stranger:
            starter.ask("start")
            stranger.ask("start")
            starter.ask("stop")
            assert "cannot be stopped from here" in stranger.fail("stop")
            assert list_servers(folder) != []
            starter.ask("start")
            starter.ask("stop")
            assert list_servers(folder) == []

    def test_another_users_folder_is_refused(house: House) -> None:
        folder = a_folder(house, uid=NO_ACCOUNT)
        folder.chmod(0o777)
        with as_user(house, folder, uid=NOBODY) as user:
            message = user.fail("start")
        assert f"belongs to uid {NO_ACCOUNT}" in message
