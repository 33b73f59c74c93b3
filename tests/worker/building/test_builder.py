"""The builder: workspace and environment of an attempt, what they took, and whose fault it was."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.client.context import Lease
from holdfast.worker.building.builder import Builder
from holdfast.worker.building.caches import BuildFailed, BuildUnavailable
from tests.tidy import ROOT
from tests.worker.bundle_store import Store, open_store, write_wheel

LEASE = Lease("1.0", 0, UUID(int=7))


@pytest.fixture
async def store(database_url: str, tmp_path: Path) -> AsyncIterator[Store]:
    """A server with bundles."""
    async with open_store(database_url, tmp_path) as store:
        yield store


@pytest.fixture
def builder(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    """A builder, with a uv that needs no network."""
    monkeypatch.setenv("PATH", f"{ROOT / '.tools' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return Builder(tmp_path / "worker", store.transport)


async def test_an_attempt_gets_its_workspace_and_its_environment(
    builder: Builder, store: Store, tmp_path: Path
) -> None:
    bundle = await store.upload_zip([("main.py", "import tiny; tiny.main()")])
    line = f"tiny @ file://{write_wheel(tmp_path / 'wheels')}"
    lease = await store.lease_for(bundle)
    first = await builder.build(bundle, [line], lease, into=tmp_path / "1")
    assert first.workspace == tmp_path / "1"
    assert first.python is not None
    program = await asyncio.create_subprocess_exec(
        first.python, "main.py", cwd=first.workspace, stdout=subprocess.PIPE
    )
    assert (await program.communicate())[0] == b"tiny 1.0\n"
    second = await builder.build(bundle, [line], LEASE, into=tmp_path / "2")
    assert second.python == first.python
    for built, was_cached in ((first, False), (second, True)):
        metrics = built.metrics
        assert metrics["bundle_cached"] is metrics["environment_cached"] is was_cached
        assert min(metrics[f"{step}_ms"] for step in ("fetch", "unpack", "environment")) >= 0
        assert metrics["bytes"] == (store.folder / "sha256" / bundle).stat().st_size
        builder.release(built)


async def test_who_needs_nothing_gets_nothing(builder: Builder, tmp_path: Path) -> None:
    built = await builder.build(None, [], LEASE, into=tmp_path / "1")
    assert (built.workspace, built.python, built.metrics) == (None, None, {})
    builder.release(built)
    assert not (tmp_path / "1").exists()
    assert not (tmp_path / "worker").exists()


async def test_an_environment_is_held_until_it_is_released(
    store: Store, builder: Builder, tmp_path: Path
) -> None:
    small = Builder(tmp_path / "worker", store.transport, environments_max=1)
    wheels = tmp_path / "wheels"
    lines = [f"tiny @ file://{write_wheel(wheels, version)}" for version in ("1.0", "2.0", "3.0")]
    first = await small.build(None, lines[:1], LEASE, into=tmp_path / "1")
    small.release(await small.build(None, lines[1:2], LEASE, into=tmp_path / "2"))
    assert first.python is not None
    assert first.python.exists()
    small.release(first)
    small.release(await small.build(None, lines[2:], LEASE, into=tmp_path / "3"))
    assert not first.python.exists()


async def test_a_wrong_bundle_is_the_jobs_fault(
    builder: Builder, store: Store, tmp_path: Path
) -> None:
    with pytest.raises(BuildFailed, match="there is no bundle"):
        await builder.build("0" * 64, [], await store.lease_for("0" * 64), into=tmp_path / "1")
    bundle = await store.upload_zip([("../x", "y")])
    with pytest.raises(BuildFailed, match="outside"):
        await builder.build(bundle, [], await store.lease_for(bundle), into=tmp_path / "2")


async def test_a_disk_in_trouble_is_not_the_jobs_fault(
    builder: Builder, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "worker").touch()  # where the caches should be
    bundle = await store.upload_zip([("a", "b")])
    with pytest.raises(BuildUnavailable, match="this worker cannot build: "):
        await builder.build(bundle, [], LEASE, into=tmp_path / "1")
    with pytest.raises(BuildUnavailable, match="this worker cannot build: "):
        await builder.build(None, ["tiny"], LEASE, into=tmp_path / "1")
