"""Environments: made once by a real uv, shared, replaced when broken, and evicted when many."""

import asyncio
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from holdfast.worker.building import environments as environments_module
from holdfast.worker.building.caches import BuildFailed, BuildUnavailable, ToolMissing, try_hold
from holdfast.worker.building.environments import Environments, find_uv, name_environment
from tests.tidy import ROOT
from tests.waiting import eventually
from tests.worker.bundle_store import write_wheel


@pytest.fixture(autouse=True)
def uv_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A uv that knows the packages of one folder, and none of the settings of whoever tests."""
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{ROOT / '.tools' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    write_wheel(tmp_path / "wheels", "1.0")
    write_wheel(tmp_path / "wheels", "2.0")


def environments_in(tmp_path: Path, environments_max: int = 10) -> Environments:
    """The environments of a worker."""
    return Environments(tmp_path / "cache", environments_max=environments_max)


async def make(environments: Environments, *requirements: str) -> tuple[Path, bool]:
    """Make an environment and let go of it; give its Python, and whether it was there."""
    environment = await environments.open(requirements)
    environment.hold.close()
    return environment.python, environment.was_cached


def run(python: Path, code: str) -> str:
    """Run a line of code."""
    return output_of(python, "-c", code)


def output_of(*command: str | Path) -> str:
    """Run a program and give what it prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def names_in(tmp_path: Path) -> set[str]:
    """List the environments that are there."""
    return {path.name for path in (tmp_path / "cache").iterdir()}


async def test_an_environment_has_what_was_required(tmp_path: Path) -> None:
    python, _ = await make(environments_in(tmp_path), "tiny==1.0")
    assert run(python, "import tiny; tiny.main()") == "tiny 1.0"
    assert output_of(python.parent / "tiny") == "tiny 1.0"


async def test_a_package_may_be_a_file(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "own", "3.0")
    python, _ = await make(environments_in(tmp_path), f"tiny @ file://{wheel}")
    assert run(python, "import tiny; print(tiny.VERSION)") == "3.0"


async def test_an_environment_is_of_this_python_and_finds_what_the_worker_can_import(
    tmp_path: Path,
) -> None:
    python, _ = await make(environments_in(tmp_path), "tiny")
    assert run(python, "import sys; print(sys.version)") == sys.version
    assert run(python, "import holdfast, msgspec; print(holdfast.__name__)") == "holdfast"
    assert run(python, "import sys; print(sys.prefix)") == str(python.parents[1])


async def test_an_environment_is_made_once_whatever_the_order_of_its_lines(tmp_path: Path) -> None:
    environments = environments_in(tmp_path)
    first = await make(environments, "tiny==1.0", "tiny>=1")
    again = await make(environments_in(tmp_path), " tiny>=1", "tiny==1.0", "tiny==1.0")
    assert (first[1], again) == (False, (first[0], True))


async def test_many_who_want_the_same_at_once_make_it_once(tmp_path: Path) -> None:
    made = await asyncio.gather(*(make(environments_in(tmp_path), "tiny") for _ in range(5)))
    assert sorted(was_cached for _, was_cached in made) == [False, True, True, True, True]
    assert len(names_in(tmp_path)) == 1


@pytest.mark.parametrize("line", ["tiny==9", "nobody-has-this", "no requirement at all", "./here"])
async def test_what_cannot_be_installed_is_the_jobs_fault_and_uv_says_why(
    tmp_path: Path, line: str
) -> None:
    with pytest.raises(
        BuildFailed, match=r"the requirements cannot be installed: error: .+"
    ) as told:
        await make(environments_in(tmp_path), line)
    assert told.value.stage == "fetch"
    assert line.partition(" ")[0].strip("./") in str(told.value)


async def test_an_index_out_of_reach_is_not_the_jobs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/packages")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(BuildUnavailable, match="uv cannot work here"):
        await make(environments_in(tmp_path), "nobody-has-this")


async def test_a_disk_that_takes_no_more_is_not_the_jobs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "echo 'error: No space left on device (os error 28)'; exit 2")
    with pytest.raises(BuildUnavailable, match="No space left on device"):
        await make(environments_in(tmp_path), "tiny")


async def test_a_uv_that_was_killed_is_not_the_jobs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "kill -9 $$")
    with pytest.raises(BuildUnavailable, match=r"uv cannot work here \(code -9\)"):
        await make(environments_in(tmp_path), "tiny")


async def test_a_long_log_of_uv_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "head -c 67108864 /dev/zero | tr '\\0' x; echo why; exit 1")
    tracemalloc.start()
    try:
        with pytest.raises(BuildUnavailable, match=r"cannot make an environment: x+why$"):
            await make(environments_in(tmp_path), "tiny")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program in uv's place."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


async def test_a_worker_without_uv_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolMissing, match="there is no uv on this worker"):
        find_uv()


def test_uv_is_found_beside_python_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uv").touch(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_uv() == str(tmp_path / "uv")


async def test_a_failed_environment_is_tried_anew(tmp_path: Path) -> None:
    environments = environments_in(tmp_path)
    with pytest.raises(BuildFailed):
        await make(environments, "tiny==3")
    write_wheel(tmp_path / "wheels", "3")
    python, was_cached = await make(environments, "tiny==3")
    assert not was_cached
    assert run(python, "import tiny; print(tiny.VERSION)") == "3"


async def test_what_somebody_left_who_was_killed_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "cache" / name_environment(["tiny"])
    (half / "venv" / "bin").mkdir(parents=True)
    (half / "venv" / "bin" / "python").touch()
    python, was_cached = await make(environments_in(tmp_path), "tiny")
    assert not was_cached
    assert run(python, "import tiny; print(tiny.VERSION)") == "2.0"


async def test_the_least_used_are_evicted_but_none_that_is_in_use(tmp_path: Path) -> None:
    environments = environments_in(tmp_path, environments_max=2)
    in_use = await environments.open(["tiny==1.0"])
    for line in ("tiny", "tiny==2.0", "tiny>=1"):
        await make(environments, line)
    kept = {name_environment(["tiny==1.0"]), name_environment(["tiny>=1"])}
    assert names_in(tmp_path) == kept
    assert run(in_use.python, "import tiny; print(tiny.VERSION)") == "1.0"
    in_use.hold.close()
    await make(environments, "tiny")
    assert names_in(tmp_path) == {name_environment(["tiny>=1"]), name_environment(["tiny"])}


def is_free(path: Path) -> bool:
    """Tell whether nobody holds an environment."""
    hold = try_hold(path)
    if hold is not None:
        hold.close()
    return hold is not None


async def test_a_build_that_is_broken_off_ends_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"sleep 600 & touch {tmp_path}/began; wait")
    making = asyncio.create_task(environments_in(tmp_path).open(["tiny"]))
    await eventually((tmp_path / "began").exists)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    path = tmp_path / "cache" / name_environment(["tiny"])
    await eventually(lambda: is_free(path))  # neither uv nor its child is there


async def test_a_uv_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments_module, "BUILD_SECONDS_MAX", 0.1)
    stand_in(tmp_path, monkeypatch, "sleep 600")
    with pytest.raises(BuildUnavailable, match=f"code -{signal.SIGKILL.value}"):
        await make(environments_in(tmp_path), "tiny")


async def test_uv_holds_what_it_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"readlink /proc/$$/fd/* > {tmp_path}/held; exit 1")
    with pytest.raises(BuildUnavailable, match="uv ended with code 1"):
        await make(environments_in(tmp_path), "tiny")
    path = tmp_path / "cache" / name_environment(["tiny"])
    assert str(path) in (tmp_path / "held").read_text().splitlines()


async def test_a_uv_that_outlives_its_worker_keeps_others_out(tmp_path: Path) -> None:
    """What it still writes must not get into what the next worker makes."""
    path = tmp_path / "cache" / name_environment(["tiny"])
    path.mkdir(parents=True)
    hold = try_hold(path)
    assert hold is not None
    orphan = await asyncio.create_subprocess_exec("sleep", "600", pass_fds=(hold.fd,))
    try:
        hold.close()  # the worker has died
        making = asyncio.create_task(make(environments_in(tmp_path), "tiny"))
        done, _ = await asyncio.wait({making}, timeout=0.3)
        assert not done
    finally:
        orphan.kill()
        await orphan.wait()
    assert not (await making)[1]
