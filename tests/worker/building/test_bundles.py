"""Bundles on a worker: fetched once, verified, kept within bounds, and left alone while in use."""

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.client.context import Lease
from holdfast.client.transport import Transport
from holdfast.worker.building import bundles as bundles_module
from holdfast.worker.building.bundles import Bundles
from holdfast.worker.building.caches import BuildFailed, BuildUnavailable
from holdfast.worker.building.unpacking import unpack
from tests.client.peer import Peer, Say, listening
from tests.waiting import eventually
from tests.worker.bundle_store import Store, open_store

LEASE = Lease("1.0", 0, UUID(int=7))
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


async def fetch(bundles: Bundles, bundle: str, lease: Lease = LEASE) -> bool:
    """Fetch a bundle and let go of it; tell whether it was there."""
    fetched = await bundles.fetch(bundle, lease)
    fetched.hold.close()
    return fetched.was_cached


async def test_a_bundle_is_fetched_once(store: Store, tmp_path: Path) -> None:
    bundle = await store.upload_zip([("a", "b")])
    first, second = cache(tmp_path, store.transport), cache(tmp_path, store.transport)
    lease = await store.lease_for(bundle)
    assert [await fetch(first, bundle, lease), await fetch(first, bundle)] == [False, True]
    assert await fetch(second, bundle)  # another worker of the host
    assert names_in(tmp_path) == {f"{bundle}.zip"}


async def test_a_bundle_is_asked_for_with_the_lease(stranger: Peer, tmp_path: Path) -> None:
    bundle, stranger.script[0] = said(b"x")
    async with Transport(stranger.url) as transport:
        fetched = await cache(tmp_path, transport).fetch(bundle, LEASE)
        assert (fetched.size, os.pread(fetched.hold.fd, 9, 0)) == (1, b"x")
        fetched.hold.close()
    [heard] = stranger.heard
    assert heard.path == f"/internal/own-bundle/{bundle}"
    assert heard.headers["Holdfast-Lease"] == str(LEASE) == f"1.0 0 {UUID(int=7)}"


async def test_many_who_want_the_same_at_once_fetch_it_once(stranger: Peer, tmp_path: Path) -> None:
    bundle, stranger.script[0] = said(os.urandom(1 << 20))
    async with Transport(stranger.url) as transport:
        workers = [cache(tmp_path, transport) for _ in range(8)]
        cached = await asyncio.gather(*(fetch(worker, bundle) for worker in workers))
    assert sorted(cached) == [False] + [True] * 7
    assert len(stranger.heard) == 1


async def test_an_unknown_bundle_is_the_jobs_fault(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=f"no bundle {'0' * 64}; upload") as failed:
        await fetch(cache(tmp_path, store.transport), "0" * 64, await store.lease_for("0" * 64))
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
        await fetch(cache(tmp_path, store.transport), bundle, await store.lease_for(bundle))
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
    in_use = await bundles.fetch(names[0], await store.lease_for(names[0]))
    for name in names[1:]:
        await fetch(bundles, name, await store.lease_for(name))
    assert names_in(tmp_path) == {f"{names[0]}.zip", f"{names[3]}.zip"}
    unpack(in_use.hold, tmp_path / "into", threading.Event())
    in_use.hold.close()
    await fetch(bundles, names[1], await store.lease_for(names[1]))
    assert names_in(tmp_path) == {f"{names[3]}.zip", f"{names[1]}.zip"}


async def test_a_bundle_larger_than_the_cache_is_used_all_the_same(
    store: Store, tmp_path: Path
) -> None:
    bundle = await store.upload_zip([("a", "x" * 1000)])
    lease = await store.lease_for(bundle)
    fetched = await cache(tmp_path, store.transport, bytes_max=10).fetch(bundle, lease)
    unpack(fetched.hold, tmp_path / "into", threading.Event())
    fetched.hold.close()
    assert (tmp_path / "into" / "a").read_text() == "x" * 1000


async def test_a_server_that_does_not_know_its_name_is_not_the_fault_of_the_job(
    stranger: Peer, tmp_path: Path
) -> None:
    stranger.script = [Say(403, b'{"error": {"code": "forbidden", "message": "no"}}')]
    async with Transport(stranger.url) as transport:
        with pytest.raises(BuildUnavailable, match="cannot be fetched: no"):
            await cache(tmp_path, transport).fetch(said(b"x")[0], LEASE)
