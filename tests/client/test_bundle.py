"""A folder as a bundle: the same bytes for the same files, and nothing in it that should not be."""

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from holdfast.client import bundle as bundle_module
from holdfast.client.bundle import Bundle, pack
from holdfast.client.client import Client
from holdfast.errors import Invalid, Unavailable
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from tests.client.peer import Peer, Say


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small workspace."""
    return make_workspace(tmp_path / "workspace")


def make_workspace(folder: Path) -> Path:
    """Write a few files."""
    (folder / "pkg" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "main.py").write_text("print('hello')\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o740)
    (folder / "pkg" / "deep" / "ünï.txt").write_text("x" * 1000)
    (folder / "latest").symlink_to("pkg/deep")
    return folder


def names_in(file: Path) -> list[str]:
    """List what a bundle holds, in its order."""
    with zipfile.ZipFile(file) as packed:
        return packed.namelist()


def test_a_bundle_holds_files_folders_and_links(folder: Path, tmp_path: Path) -> None:
    made = pack(folder, tmp_path / "b.zip")
    assert made.size == (tmp_path / "b.zip").stat().st_size
    with zipfile.ZipFile(tmp_path / "b.zip") as packed:
        modes = {entry.filename: entry.external_attr >> 16 for entry in packed.infolist()}
        assert packed.read("main.py") == b"print('hello')\n"
        assert packed.read("latest") == b"pkg/deep"
        assert packed.testzip() is None
    assert list(modes) == sorted(modes)
    assert modes == {
        "empty/": stat.S_IFDIR | 0o755,
        "latest": stat.S_IFLNK | 0o777,
        "main.py": stat.S_IFREG | 0o644,
        "pkg/": stat.S_IFDIR | 0o755,
        "pkg/deep/": stat.S_IFDIR | 0o755,
        "pkg/deep/ünï.txt": stat.S_IFREG | 0o644,
        "run.sh": stat.S_IFREG | 0o755,
    }


def test_the_same_files_make_the_same_bundle_wherever_and_whenever(
    folder: Path, tmp_path: Path
) -> None:
    first = pack(folder, tmp_path / "1.zip")
    other = make_workspace(tmp_path / "elsewhere" / "copy")
    for path in [other / "main.py", other / "pkg", other]:
        os.utime(path, (1, 1))
    (other / "main.py").chmod(0o600)
    assert pack(other, tmp_path / "2.zip") == first
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


@pytest.mark.parametrize("change", ["content", "name", "executable", "link"])
def test_another_workspace_makes_another_bundle(folder: Path, tmp_path: Path, change: str) -> None:
    before = pack(folder, tmp_path / "1.zip")
    match change:
        case "content":
            (folder / "main.py").write_text("print('hellO')\n")
        case "name":
            (folder / "main.py").rename(folder / "Main.py")
        case "executable":
            (folder / "main.py").chmod(0o755)
        case "link":
            (folder / "latest").unlink()
            (folder / "latest").symlink_to("pkg")
    assert pack(folder, tmp_path / "2.zip").hash != before.hash


def test_what_no_task_needs_stays_at_home(folder: Path, tmp_path: Path) -> None:
    for name in (".git", ".venv", "pkg/__pycache__", "pkg/node_modules"):
        (folder / name).mkdir()
        (folder / name / "x.txt").touch()
    (folder / "pkg" / "m.pyc").touch()
    assert [name for name in names_in_packed(folder, tmp_path) if "x.txt" in name] == []
    assert "pkg/m.pyc" not in names_in_packed(folder, tmp_path)


def names_in_packed(folder: Path, tmp_path: Path) -> list[str]:
    """Pack a folder and list what is in its bundle."""
    pack(folder, tmp_path / "b.zip")
    return names_in(tmp_path / "b.zip")


@pytest.mark.parametrize(
    ("pattern", "left_out"),
    [
        ("*.log", {"a.log", "pkg/b.log"}),
        ("a.log", {"a.log"}),
        ("pkg/*.log", {"pkg/b.log"}),
        ("/a.log", {"a.log"}),
        ("pkg", {"pkg/", "pkg/b.log", "pkg/build", "pkg/c.txt"}),
        ("build", {"build/", "build/x", "pkg/build"}),
        ("build/", {"build/", "build/x"}),
        ("pkg/?.txt", {"pkg/c.txt"}),
        ("# a comment\n\n  *.txt  \n", {"pkg/c.txt"}),
        ("*.LOG", set()),
        ("pkg/*\n!pkg/c.txt", {"pkg/b.log", "pkg/build"}),
        ("**/build", {"build/", "build/x", "pkg/build"}),
        ("*/*.log", {"pkg/b.log"}),
        ("\\#*", set()),
    ],
)
def test_the_ignore_file_leaves_out_more(tmp_path: Path, pattern: str, left_out: set[str]) -> None:
    folder = tmp_path / "w"
    for name in ("a.log", "pkg/b.log", "pkg/c.txt", "pkg/build", "build/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    everything = set(names_in_packed(folder, tmp_path))
    (folder / ".holdfastignore").write_text(pattern)
    packed = set(names_in_packed(folder, tmp_path)) - {".holdfastignore"}
    assert everything - packed == left_out


@pytest.mark.parametrize("content", [b"*.log\n!\n", b"\xff"])
def test_an_ignore_file_that_is_not_understood_is_refused(
    folder: Path, tmp_path: Path, content: bytes
) -> None:
    (folder / ".holdfastignore").write_bytes(content)
    with pytest.raises(Invalid) as refused:
        pack(folder, tmp_path / "b.zip")
    assert refused.value.field == ".holdfastignore"


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside", "pkg/../../outside", "up/.."])
def test_a_link_that_leads_out_is_refused_by_name(
    folder: Path, tmp_path: Path, target: str
) -> None:
    (folder / "pkg" / "up").symlink_to("..")
    (folder / "up").symlink_to("pkg/up")
    (folder / "bad").symlink_to(target)
    with pytest.raises(Invalid, match=r"the link bad leads out of the folder, to .*holdfastignore"):
        pack(folder, tmp_path / "b.zip")
    (folder / ".holdfastignore").write_text("bad")
    pack(folder, tmp_path / "b.zip")


def test_a_link_to_nothing_inside_is_kept(folder: Path, tmp_path: Path) -> None:
    (folder / "later").symlink_to("not/yet")
    (folder / "round").symlink_to("round")
    assert {"later", "round"} <= set(names_in_packed(folder, tmp_path))


def test_too_much_is_refused_and_the_largest_are_named(folder: Path, tmp_path: Path) -> None:
    for number in range(8):
        (folder / f"{number}.bin").write_bytes(os.urandom(number * 1000))
    with pytest.raises(Invalid, match=r"over the limit of 15\.0 kB") as refused:
        pack(folder, tmp_path / "b.zip", bytes_max=15_000)
    assert refused.value.field == "workspace"
    assert refused.value.problem.endswith(
        "The largest files: 7.bin (7.0 kB), 6.bin (6.0 kB), 5.bin (5.0 kB), 4.bin (4.0 kB), "
        "3.bin (3.0 kB)"
    )
    assert ".holdfastignore" in refused.value.problem


def test_the_last_bytes_count_too(folder: Path, tmp_path: Path) -> None:
    size = pack(folder, tmp_path / "b.zip").size
    pack(folder, tmp_path / "b.zip", bytes_max=size)
    with pytest.raises(Invalid, match="over the limit"):
        pack(folder, tmp_path / "b.zip", bytes_max=size - 1)


def test_files_that_unpack_to_too_much_are_refused_before_they_are_packed(
    folder: Path, tmp_path: Path
) -> None:
    with (folder / "holes").open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(Invalid, match=r"its files have 5.4 GB, over .* holes \(5.4 GB\)"):
        pack(folder, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def test_too_many_files_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_module, "ENTRIES_MAX", 6)
    with pytest.raises(Invalid, match="7 files and folders are over the limit of 6"):
        pack(folder, tmp_path / "b.zip")


def test_what_is_no_file_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pkg" / "pipe")
    with pytest.raises(Invalid, match="pkg/pipe is no file, folder or link"):
        pack(folder, tmp_path / "b.zip")


@pytest.mark.parametrize("name", [b"\xff", b"a\\b"])
def test_a_name_that_is_none_elsewhere_is_refused(
    folder: Path, tmp_path: Path, name: bytes
) -> None:
    (folder / os.fsdecode(name)).touch()
    with pytest.raises(Invalid) as refused:
        pack(folder, tmp_path / "b.zip")
    assert refused.value.field == "workspace"


@pytest.mark.parametrize("name", ["nothing", "workspace/main.py"])
def test_what_is_no_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="is not a folder"):
        pack(folder.parent / name, tmp_path / "b.zip")


def test_an_empty_folder_is_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    assert isinstance(pack(tmp_path / "w", tmp_path / "b.zip"), Bundle)
    assert names_in(tmp_path / "b.zip") == []


@pytest.fixture
def storing(database_url: str, tmp_path: Path) -> Iterator[Client]:
    """A client of a server that takes bundles in."""
    serving = serve(Options(database_url, object_store=str(tmp_path / "o")), Address(port=0))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving) as running,
        Client(running.url) as client,
    ):
        yield client


def test_an_upload_is_named_by_its_content(storing: Client, folder: Path, tmp_path: Path) -> None:
    name = storing.upload(folder)
    assert name == pack(folder, tmp_path / "b.zip").hash
    [stored] = (tmp_path / "o" / "sha256").iterdir()
    assert (stored.name, stored.read_bytes()) == (name, (tmp_path / "b.zip").read_bytes())


async def test_an_upload_can_be_awaited(storing: Client, folder: Path) -> None:
    assert await storing.upload.aio(str(folder)) == await storing.upload.aio(folder)


def test_what_the_server_has_is_not_sent_again(
    folder: Path, stranger: Peer, tmp_path: Path
) -> None:
    made = pack(folder, tmp_path / "b.zip")
    answer = f'{{"bundle": "{made.hash}", "size": {made.size}, "is_new": true}}'.encode()
    with Client(stranger.url) as client:
        stranger.script = [Say(404, b""), Say(201, answer)]
        assert client.upload(folder) == made.hash
        stranger.script = [Say(200, b"", {"Content-Length": str(made.size)})]
        assert client.upload(folder) == made.hash
    heard = [(each.method, each.path) for each in stranger.heard]
    path = f"/api/bundles/{made.hash}"
    assert heard == [("HEAD", path), ("PUT", path), ("HEAD", path)]
    assert stranger.heard[1].body == (tmp_path / "b.zip").read_bytes()
    assert stranger.heard[1].headers["Content-Type"] == "application/octet-stream"


def test_what_is_there_in_part_is_sent_again(folder: Path, stranger: Peer, tmp_path: Path) -> None:
    made = pack(folder, tmp_path / "b.zip")
    answer = f'{{"bundle": "{made.hash}", "size": {made.size}, "is_new": true}}'.encode()
    stranger.script = [Say(200, b"", {"Content-Length": "1"}), Say(None), Say(201, answer)]
    with Client(stranger.url) as client:
        client.upload(folder)
    assert [each.method for each in stranger.heard] == ["HEAD", "PUT", "PUT"]


def test_a_server_that_takes_none_in_says_why(client: Client, folder: Path) -> None:
    with (
        Client(client.server, patience=0.1) as hasty,
        pytest.raises(Unavailable, match="--object-store"),
    ):
        hasty.upload(folder)


def test_nothing_is_sent_of_what_cannot_be_packed(stranger: Peer, tmp_path: Path) -> None:
    with Client(stranger.url) as client, pytest.raises(Invalid):
        client.upload(tmp_path / "nothing")
    assert stranger.heard == []
