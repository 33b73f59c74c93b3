"""Unpacking a bundle: all of it comes out, in bounds, and nothing gets out of its folder."""

import os
import resource
import stat
import struct
import threading
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from holdfast.client.bundle import pack
from holdfast.wire.bundles import ENTRIES_MAX
from holdfast.worker.building import unpacking
from holdfast.worker.building.caches import BuildFailed, BuildUnavailable, Hold, try_hold
from holdfast.worker.building.unpacking import DIRECTORY_BYTES_MAX, unpack
from tests.worker.bundle_store import an_entry, zip_of


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Where things are unpacked."""
    return tmp_path / "attempt" / "work"


def hold_of(tmp_path: Path, content: bytes) -> Hold:
    """Hold a file with some content."""
    (tmp_path / "given.zip").write_bytes(content)
    hold = try_hold(tmp_path / "given.zip", shared=True)
    assert hold is not None
    return hold


def unpack_all(tmp_path: Path, content: bytes, into: Path) -> None:
    """Unpack a bundle with some content."""
    hold = hold_of(tmp_path, content)
    try:
        unpack(hold, into, threading.Event())
    finally:
        hold.close()


def test_a_workspace_comes_out_as_it_went_in(tmp_path: Path, into: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "pkg").mkdir(parents=True)
    (workspace / "empty").mkdir()
    (workspace / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (workspace / "run.sh").chmod(0o755)
    (workspace / "pkg" / "a.txt").write_text("a" * 3_000_000)
    (workspace / "pkg" / "up").symlink_to("../run.sh")
    pack(workspace, tmp_path / "packed.zip")
    unpack_all(tmp_path, (tmp_path / "packed.zip").read_bytes(), into)
    assert tree_of(into) == ["empty", "pkg", "pkg/a.txt", "pkg/up", "run.sh"]
    assert os.access(into / "run.sh", os.X_OK)
    assert not os.access(into / "pkg" / "a.txt", os.X_OK)
    assert (into / "pkg" / "a.txt").read_text() == "a" * 3_000_000
    assert (into / "pkg" / "up").readlink() == Path("../run.sh")


def tree_of(folder: Path) -> list[str]:
    """List everything in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_files_of_two_attempts_are_two(tmp_path: Path) -> None:
    content = zip_of([("a", "x")])
    unpack_all(tmp_path, content, tmp_path / "1")
    (tmp_path / "1" / "a").write_text("changed")
    unpack_all(tmp_path, content, tmp_path / "2")
    assert (tmp_path / "2" / "a").read_text() == "x"


@pytest.mark.parametrize(
    "name",
    ["/etc/x", "../x", "a/../../x", "a//b", "./a", "a/./b", "a\\b", "..", "/", "a/../b"],
)
def test_a_name_that_leads_out_is_refused_and_nothing_is_written(
    tmp_path: Path, into: Path, name: str
) -> None:
    with pytest.raises(BuildFailed, match="names a file outside of it"):
        unpack_all(tmp_path, zip_of([("fine", "x"), (name, "y")]), into)
    assert list(into.iterdir()) == []
    assert not (tmp_path / "x").exists()


LINK = stat.S_IFLNK | 0o777


@pytest.mark.parametrize(
    "links",
    [
        {"out": "/etc"},
        {"out": ".."},
        {"out": "a/../../x"},
        {"out": "sub/up/../x", "sub/up": ".."},
        {"out": "/"},
    ],
)
def test_a_link_that_leads_out_is_refused(
    tmp_path: Path, into: Path, links: dict[str, str]
) -> None:
    entries = [(an_entry(name, LINK), target) for name, target in links.items()]
    with pytest.raises(BuildFailed, match="a link that leads out of it: out"):
        unpack_all(tmp_path, zip_of(entries), into)


def test_an_absolute_link_is_refused_even_if_it_leads_inside(tmp_path: Path, into: Path) -> None:
    with pytest.raises(BuildFailed, match="leads out"):
        unpack_all(tmp_path, zip_of([(an_entry("l", LINK), str(into / "x"))]), into)


@pytest.mark.parametrize("told", [64 << 20, 5])
def test_a_link_is_not_read_into_memory_whatever_its_size_and_what_is_said_of_it(
    tmp_path: Path, into: Path, told: int
) -> None:
    link, size = an_entry("long", LINK), 64 << 20
    link.compress_type = zipfile.ZIP_DEFLATED
    content = zip_of([(link, "x" * size)])
    content = content.replace(struct.pack("<I", size), struct.pack("<I", told))
    tracemalloc.start()
    try:
        with pytest.raises(BuildFailed):
            unpack_all(tmp_path, content, into)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20
    assert list(into.iterdir()) == []


def test_the_longest_link_that_a_disk_can_have_comes_out(tmp_path: Path, into: Path) -> None:
    target = "./" * 2047 + "x"
    unpack_all(tmp_path, zip_of([(an_entry("link", LINK), target)]), into)
    assert os.readlink(into / "link") == target
    with pytest.raises(BuildFailed, match="a link of 4096 bytes, over 4095: 'link'"):
        unpack_all(tmp_path, zip_of([(an_entry("link", LINK), f"{target}x")]), tmp_path / "other")


@pytest.mark.parametrize("order", [1, -1])
def test_nothing_is_written_through_a_link(tmp_path: Path, into: Path, order: int) -> None:
    (tmp_path / "outside").mkdir()
    link, evil = (an_entry("l", LINK), str(tmp_path / "outside")), (zipfile.ZipInfo("l/evil"), "x")
    entries = [link, evil][::order]
    with pytest.raises(BuildFailed):
        unpack_all(tmp_path, zip_of(entries), into)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_what_is_no_file_is_refused(tmp_path: Path, into: Path, kind: int) -> None:
    with pytest.raises(BuildFailed, match="something that is no file: 'odd'"):
        unpack_all(tmp_path, zip_of([(an_entry("odd", kind | 0o644), "")]), into)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/", "a"), ("x" * 300, "y")])
def test_names_that_a_disk_cannot_have_are_the_jobs_fault(
    tmp_path: Path, into: Path, names: tuple[str, str]
) -> None:
    with pytest.raises(BuildFailed, match="cannot be unpacked"):
        unpack_all(tmp_path, zip_of([(name, "") for name in names]), into)


def test_bits_that_give_rights_are_left_out(tmp_path: Path, into: Path) -> None:
    unpack_all(tmp_path, zip_of([(an_entry("a", stat.S_IFREG | 0o6777), "")]), into)
    assert stat.S_IMODE((into / "a").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "content",
    [b"", b"no zip at all", zip_of([("a", "b" * 99)])[20:]],
    ids=["empty", "another file", "the end of one"],  # not by content: it has the time in it
)
def test_what_is_no_zip_is_the_jobs_fault(tmp_path: Path, into: Path, content: bytes) -> None:
    with pytest.raises(BuildFailed, match="cannot be unpacked"):
        unpack_all(tmp_path, content, into)


def test_a_damaged_file_is_the_jobs_fault(tmp_path: Path, into: Path) -> None:
    content = zip_of([("a", "bbbbbbbb")]).replace(b"bbbbbbbb", b"bbbbXbbb")
    with pytest.raises(BuildFailed, match="cannot be unpacked: Bad CRC"):
        unpack_all(tmp_path, content, into)


def test_too_much_is_not_unpacked(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "UNPACKED_BYTES_MAX", 10)
    with pytest.raises(BuildFailed, match="holds 11 bytes, over 10"):
        unpack_all(tmp_path, zip_of([("a", "x" * 5), ("b", "x" * 6)]), into)
    monkeypatch.setattr(unpacking, "ENTRIES_MAX", 1)
    with pytest.raises(BuildFailed, match="has 2 entries, over 1"):
        unpack_all(tmp_path, zip_of([("a", ""), ("b", "")]), into)


def test_other_ways_to_pack_are_refused(tmp_path: Path, into: Path) -> None:
    packed = an_entry("a", stat.S_IFREG | 0o644)
    packed.compress_type = zipfile.ZIP_LZMA
    with pytest.raises(BuildFailed, match="packed in a way that is not known"):
        unpack_all(tmp_path, zip_of([(packed, "x")]), into)


def test_a_folder_with_something_in_it_is_not_unpacked_into(tmp_path: Path, into: Path) -> None:
    into.mkdir(parents=True)
    (into / "mine").touch()
    with pytest.raises(BuildUnavailable, match="is not empty"):
        unpack_all(tmp_path, zip_of([("a", "b")]), into)


def test_a_disk_that_takes_no_more_is_not_the_jobs_fault(tmp_path: Path, into: Path) -> None:
    hold = hold_of(tmp_path, zip_of([("a", "x" * 100_000)]))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            unpack(hold, into, threading.Event())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        hold.close()


def test_unpacking_is_broken_off_when_nobody_wants_it(tmp_path: Path, into: Path) -> None:
    hold = hold_of(tmp_path, zip_of([("a", "x")]))
    stop = threading.Event()
    stop.set()
    with pytest.raises(BuildUnavailable, match="broken off"):
        unpack(hold, into, stop)
    hold.close()
    assert list(into.iterdir()) == []


def directory_of(record: bytes, count: int) -> bytes:
    """Write the end of a zip: a directory of the same record again and again."""
    directory = record * count
    return directory + struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), 0, 0
    )


def test_a_directory_that_is_too_large_is_not_read(tmp_path: Path, into: Path) -> None:
    content = directory_of(b"\0" * (1 << 20), DIRECTORY_BYTES_MAX // (1 << 20) + 1)
    with pytest.raises(BuildFailed, match="the directory of the bundle is over"):
        unpack_all(tmp_path, content, into)


def test_entries_are_counted_before_they_are_read(tmp_path: Path, into: Path) -> None:
    record = struct.pack("<4s24xH16x", b"PK\1\2", 1) + b"a"  # its name has one letter
    with pytest.raises(BuildFailed, match=f"over {ENTRIES_MAX} entries"):
        unpack_all(tmp_path, directory_of(record, ENTRIES_MAX + 1), into)
