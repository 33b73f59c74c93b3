"""Where the embedded Postgres lives, and what it refuses to live with."""

import os
from pathlib import Path

import pytest

from holdfast.embedded import EmbeddedPostgres, PostgresUnavailable, default_folder
from holdfast.embedded.folder import SOCKET_NAME, Folder


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere/somebody")
    monkeypatch.delenv("HOLDFAST_DATA_DIR", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    at_home = Path("/somewhere/somebody/.local/share/holdfast/postgres")
    assert default_folder() == at_home
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_folder() == at_home
    monkeypatch.setenv("XDG_DATA_HOME", "/shared")
    assert default_folder() == Path("/shared/holdfast/postgres")
    monkeypatch.setenv("HOLDFAST_DATA_DIR", "/chosen")
    assert default_folder() == Path("/chosen")


@pytest.mark.parametrize("length", range(80, 110))
def test_the_socket_fits_however_long_the_path(length: int) -> None:
    folder = Folder(Path("/" + "x" * length))
    assert len(os.fsencode(folder.socket_folder / SOCKET_NAME)) <= 107
    assert folder.socket_folder == Folder(folder.path).socket_folder


@pytest.mark.parametrize("name", ["a,b", "a b", 'a"b', "a'b", "a&b", "a%41", "ü", "\udcff"])
def test_a_path_that_would_not_fit_into_a_url_has_its_socket_elsewhere(name: str) -> None:
    folder = Folder(Path("/") / name)
    assert folder.socket_folder.parent == Path("/tmp")
    assert Folder(Path("/a-b_c.d/E9")).socket_folder == Path("/a-b_c.d/E9/socket")


def test_a_folder_with_other_things_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(PostgresUnavailable, match=r"not empty.*thesis\.tex"):
        EmbeddedPostgres(tmp_path).start()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PostgresUnavailable, match="cannot use the folder"):
        EmbeddedPostgres(tmp_path / "file").start()


def test_a_line_break_in_the_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PostgresUnavailable, match="line break"):
        EmbeddedPostgres(tmp_path / "a\nb").start()


def test_a_new_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    Folder(tmp_path / "deep" / "pg").prepare()
    assert (tmp_path / "deep" / "pg").stat().st_mode & 0o777 == 0o700


def test_a_socket_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "socket").mkdir()
    (tmp_path / "socket").chmod(0o777)
    with pytest.raises(PostgresUnavailable, match=r"does not belong to uid \d+ alone"):
        Folder(tmp_path).prepare_socket_folder()


def test_a_symbolic_link_in_place_of_the_socket_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "socket").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PostgresUnavailable, match="wanted for the socket"):
        Folder(tmp_path).prepare_socket_folder()


def test_the_log_tail_is_bounded_and_begins_where_asked(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.log_tail(since=0) == ""
    folder.log.write_text("old\n")
    since = folder.log_size()
    assert folder.log_tail(since) == ""
    folder.log.write_text("old\n" + "".join(f"line {number}\n" for number in range(1000)))
    assert folder.log_tail(since, lines_max=2) == "line 998\nline 999"


def test_a_long_log_is_put_aside(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.log.open("wb") as log:
        log.truncate(10_000_001)
    folder.trim_log()
    assert not folder.log.exists()
    assert (tmp_path / "postgres.log.old").exists()
