"""Entries of a cache: who may hold them, and which of them go."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.worker.building.caches import Hold, evict, in_thread, take_turns, try_hold


def size_of(path: Path) -> int:
    """Weigh a file."""
    return path.stat().st_size


def held(path: Path, *, shared: bool = False) -> Hold:
    """Hold an entry that is free."""
    hold = try_hold(path, shared=shared)
    assert hold is not None
    return hold


@pytest.fixture(params=["file", "folder"])
def entry(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An entry of either kind."""
    path = tmp_path / "entry"
    path.touch() if request.param == "file" else path.mkdir()
    return path


def test_whoever_makes_an_entry_holds_it_alone(entry: Path) -> None:
    first = held(entry)
    assert try_hold(entry) is None
    assert try_hold(entry, shared=True) is None
    first.close()
    held(entry).close()


def test_users_share_an_entry(entry: Path) -> None:
    first, second = held(entry, shared=True), held(entry, shared=True)
    assert try_hold(entry) is None
    first.close()
    assert try_hold(entry) is None
    second.close()
    held(entry).close()


def test_a_maker_becomes_a_user(entry: Path) -> None:
    maker = held(entry)
    assert maker.share()
    user = held(entry, shared=True)
    assert try_hold(entry) is None
    maker.close()
    user.close()


def test_what_is_not_there_is_not_held(tmp_path: Path) -> None:
    assert try_hold(tmp_path / "nothing") is None
    held_new = try_hold(tmp_path / "new", flags=os.O_RDWR | os.O_CREAT)
    assert held_new is not None
    held_new.close()


def test_a_hold_knows_when_its_entry_was_replaced(tmp_path: Path) -> None:
    (tmp_path / "entry").touch()
    hold = held(tmp_path / "entry")
    assert hold.is_current()
    (tmp_path / "entry").unlink()
    assert not hold.is_current()
    (tmp_path / "entry").touch()
    assert not hold.is_current()
    assert not hold.share()
    hold.close()


def test_a_child_that_inherited_a_hold_keeps_it(entry: Path) -> None:
    hold = held(entry, shared=True)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(hold.fd,)
    ) as child:
        hold.close()
        assert try_hold(entry) is None
        child.communicate(b"\n", timeout=30)
    held(entry).close()


def cached(folder: Path, *names: str) -> None:
    """Put files of ten bytes into a cache, the oldest first."""
    for age, name in enumerate(names):
        (folder / name).write_bytes(b"x" * 10)
        os.utime(folder / name, (1000 + age, 1000 + age))


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cached(tmp_path, "c", "a", "b", "d")
    used = held(tmp_path / "c", shared=True)
    used.note_use()
    used.close()
    evict(tmp_path, 25, weigh=size_of, remove=Path.unlink)
    assert {path.name for path in tmp_path.iterdir()} == {"c", "d"}


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    cached(tmp_path, "a", "b", "c")
    used, made = held(tmp_path / "a", shared=True), held(tmp_path / "c")
    evict(tmp_path, 0, weigh=size_of, remove=Path.unlink)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "c"}
    used.close()
    made.close()
    evict(tmp_path, 0, weigh=size_of, remove=Path.unlink)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_is_not_full_keeps_everything(tmp_path: Path) -> None:
    cached(tmp_path, "a", "b")
    evict(tmp_path, 20, weigh=size_of, remove=Path.unlink)
    assert len(list(tmp_path.iterdir())) == 2


async def test_turns_have_an_end() -> None:
    assert [None async for _ in take_turns(0)] == [None]
    assert len([None async for _ in take_turns(0.12)]) > 1


async def test_work_in_a_thread_is_answered() -> None:
    assert await in_thread(lambda stop: stop.is_set()) is False
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda _: 1 // 0)


async def test_work_that_nobody_waits_for_is_told_and_ends_first() -> None:
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        began.set()
        assert stop.wait(30)
        assert may_end.wait(30)
        ended.set()
        raise OSError("broken off")

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(began.wait, 30)
    for _ in range(2):  # a second time, it is waited for as well
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
