"""Bundles on a worker: fetched once, verified, kept within bounds, unpacked with no way out."""

import asyncio
import hashlib
import os
import resource
import stat
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.client.transport import Transport
from holdfast.worker.building import bundles as bundles_module
from holdfast.worker.building.bundles import Bundles, unpack
from holdfast.worker.building.caches import BuildFailed, BuildUnavailable, Hold, try_hold
from tests.client.peer import Peer, Say, listening
from tests.waiting import eventually
from tests.worker.bundle_store import Store, an_entry, open_store, zip_of

LEASE = "1.0 0 token"
LOTS = 1 << 30


@pytest.fixture
async def store(database_url: str, tmp_path: Path) -> AsyncIterator[Store]:
    """A server with bundles."""
    async with open_store(database_url, tmp_path) as store:
        yield store


@pytest.fixture
def stranger() -> Iterator[Peer]:
    """Somebody who answers as he is told."""
    with listening() as peer:
        yield peer


def cache(tmp_path: Path, transport: Transport, bytes_max: int = LOTS) -> Bundles:
    """The cache of a worker."""
    return Bundles(tmp_path / "cache", transport, bytes_max=bytes_max)


def names_in(tmp_path: Path) -> set[str]:
    """List what is in the cache."""
    return {path.name for path in (tmp_path / "cache").iterdir()}


def said(content: bytes) -> tuple[str, Say]:
    """Give the name of content, and a server that says it."""
    return hashlib.sha256(content).hexdigest(), Say(200, content)


async def fetch(bundles: Bundles, bundle: str) -> bool:
    """Fetch a bundle and let go of it; tell whether it was there."""
    fetched = await bundles.fetch(bundle, LEASE)
    fetched.hold.close()
    return fetched.was_cached


async def test_a_bundle_is_fetched_once(store: Store, tmp_path: Path) -> None:
    bundle = await store.upload_zip([("a", "b")])
    first, second = cache(tmp_path, store.transport), cache(tmp_path, store.transport)
    assert [await fetch(first, bundle), await fetch(first, bundle)] == [False, True]
    assert await fetch(second, bundle)  # another worker of the host
    assert names_in(tmp_path) == {f"{bundle}.zip"}


async def test_a_bundle_is_asked_for_with_the_lease(stranger: Peer, tmp_path: Path) -> None:
    bundle, stranger.script[0] = said(b"x")
    async with Transport(stranger.url) as transport:
        fetched = await cache(tmp_path, transport).fetch(bundle, LEASE)
        assert (fetched.size, os.pread(fetched.hold.fd, 9, 0)) == (1, b"x")
        fetched.hold.close()
    [heard] = stranger.heard
    assert (heard.path, heard.headers["Holdfast-Lease"]) == (f"/api/bundles/{bundle}", LEASE)


async def test_many_who_want_the_same_at_once_fetch_it_once(stranger: Peer, tmp_path: Path) -> None:
    bundle, stranger.script[0] = said(os.urandom(1 << 20))
    async with Transport(stranger.url) as transport:
        workers = [cache(tmp_path, transport) for _ in range(8)]
        cached = await asyncio.gather(*(fetch(worker, bundle) for worker in workers))
    assert sorted(cached) == [False] + [True] * 7
    assert len(stranger.heard) == 1


async def test_an_unknown_bundle_is_the_jobs_fault(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=f"no bundle {'0' * 64}; upload") as failed:
        await fetch(cache(tmp_path, store.transport), "0" * 64)
    assert failed.value.stage == "fetch"
    assert names_in(tmp_path) == set()


async def test_a_name_that_is_no_hash_is_the_jobs_fault(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="is not a content hash"):
        await fetch(cache(tmp_path, store.transport), "../../etc/passwd")


async def test_content_that_is_not_what_its_name_says_is_not_kept(
    store: Store, tmp_path: Path
) -> None:
    bundle = await store.upload_zip([("a", "b")])
    (store.folder / "sha256" / bundle).write_bytes(b"something else")
    with pytest.raises(BuildFailed, match="is wrong: what the server gave has the hash"):
        await fetch(cache(tmp_path, store.transport), bundle)
    assert names_in(tmp_path) == set()


async def test_a_bundle_over_the_limit_is_given_up(
    stranger: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles_module, "BUNDLE_BYTES_MAX", 1000)
    bundle, stranger.script[0] = said(b"x" * 1001)
    async with Transport(stranger.url) as transport:
        with pytest.raises(BuildFailed, match="over 1000 bytes"):
            await fetch(cache(tmp_path, transport), bundle)
    assert names_in(tmp_path) == set()


@pytest.mark.parametrize(
    "trouble",
    [
        Say(None),
        Say(503, b'{"error": {"code": "unavailable", "message": "the store is away"}}'),
        Say(502, b"<html>"),
        Say(200, b"x", {"Content-Length": "2"}, hangs_up=True),
    ],
    ids=["gone", "store", "proxy", "cut"],
)
async def test_a_server_or_store_out_of_reach_is_not_the_jobs_fault(
    stranger: Peer, tmp_path: Path, trouble: Say
) -> None:
    bundle, fine = said(b"xx")
    stranger.script = [trouble]
    async with Transport(stranger.url) as transport:
        bundles = cache(tmp_path, transport)
        with pytest.raises(BuildUnavailable, match="cannot be fetched"):
            await fetch(bundles, bundle)
        assert names_in(tmp_path) == set()
        stranger.script = [fine]
        assert not await fetch(bundles, bundle)


async def test_what_somebody_left_who_was_killed_is_fetched_anew(
    stranger: Peer, tmp_path: Path
) -> None:
    bundle, stranger.script[0] = said(b"x")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"{bundle}.part").write_bytes(b"half of something")
    async with Transport(stranger.url) as transport:
        assert not await fetch(cache(tmp_path, transport), bundle)
    assert (tmp_path / "cache" / f"{bundle}.zip").read_bytes() == b"x"


async def test_a_fetch_that_is_broken_off_leaves_nothing(stranger: Peer, tmp_path: Path) -> None:
    bundle, fine = said(b"x")
    stranger.script = [Say(200, b"x", {"Content-Length": "2"}, silence=60), fine]
    async with Transport(stranger.url) as transport:
        bundles = cache(tmp_path, transport)
        fetching = asyncio.create_task(bundles.fetch(bundle, LEASE))
        part = tmp_path / "cache" / f"{bundle}.part"
        await eventually(lambda: part.exists() and part.stat().st_size)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert names_in(tmp_path) == set()
        assert not await fetch(bundles, bundle)


async def test_the_least_used_are_evicted_but_none_that_is_in_use(
    store: Store, tmp_path: Path
) -> None:
    names = [await store.upload_zip([("a", f"{number}" * 1000)]) for number in range(4)]
    bundles = cache(tmp_path, store.transport, bytes_max=2500)
    in_use = await bundles.fetch(names[0], LEASE)
    for name in names[1:]:
        await fetch(bundles, name)
    assert names_in(tmp_path) == {f"{names[0]}.zip", f"{names[3]}.zip"}
    unpack(in_use.hold, tmp_path / "into", threading.Event())
    in_use.hold.close()
    await fetch(bundles, names[1])
    assert names_in(tmp_path) == {f"{names[3]}.zip", f"{names[1]}.zip"}


async def test_a_bundle_larger_than_the_cache_is_used_all_the_same(
    store: Store, tmp_path: Path
) -> None:
    bundle = await store.upload_zip([("a", "x" * 1000)])
    fetched = await cache(tmp_path, store.transport, bytes_max=10).fetch(bundle, LEASE)
    unpack(fetched.hold, tmp_path / "into", threading.Event())
    fetched.hold.close()
    assert (tmp_path / "into" / "a").read_text() == "x" * 1000


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


def unpack_all(tmp_path: Path, content: bytes, into: Path) -> int:
    """Unpack a bundle with some content."""
    hold = hold_of(tmp_path, content)
    try:
        return unpack(hold, into, threading.Event())
    finally:
        hold.close()


async def test_a_workspace_comes_out_as_it_went_in(
    store: Store, tmp_path: Path, into: Path
) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "pkg").mkdir(parents=True)
    (workspace / "empty").mkdir()
    (workspace / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (workspace / "run.sh").chmod(0o755)
    (workspace / "pkg" / "a.txt").write_text("a" * 3_000_000)
    (workspace / "pkg" / "up").symlink_to("../run.sh")
    fetched = await cache(tmp_path, store.transport).fetch(await store.upload(workspace), LEASE)
    unpack(fetched.hold, into, threading.Event())
    fetched.hold.close()
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


@pytest.mark.parametrize("content", [b"", b"no zip at all", zip_of([("a", "b" * 99)])[20:]])
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
    monkeypatch.setattr(bundles_module, "UNPACKED_BYTES_MAX", 10)
    with pytest.raises(BuildFailed, match="holds 11 bytes, over 10"):
        unpack_all(tmp_path, zip_of([("a", "x" * 5), ("b", "x" * 6)]), into)
    monkeypatch.setattr(bundles_module, "ENTRIES_MAX", 1)
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
