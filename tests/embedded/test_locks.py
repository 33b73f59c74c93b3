"""Locks that the kernel keeps."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.embedded import PostgresUnavailable
from holdfast.embedded.locks import SharedLock, exclusive, find_holder, is_free, turns_until

from .users import ROOT, wait_for

HOLD_BOTH = """
import fcntl, sys
flock, posix = open(sys.argv[1], "w"), open(sys.argv[2], "w")
fcntl.flock(flock, fcntl.LOCK_EX)
fcntl.lockf(posix, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""

LEAVE_IN_A_CHILD = """
import os, pathlib, sys
from holdfast.embedded.locks import SharedLock, is_free
path = pathlib.Path(sys.argv[1])
lock = SharedLock(path)
lock.hold()
child = os.fork()
if child == 0:
    assert not lock.is_held
    lock.release()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert lock.is_held and not is_free(path)
lock.release()
assert is_free(path)
"""


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    flock, posix = tmp_path / "flock", tmp_path / "posix"
    command = [sys.executable, "-c", HOLD_BOTH, str(flock), str(posix)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert not is_free(flock)
        assert find_holder(posix) == process.pid
        process.kill()
        # Not yet waited for, the holder is a zombie; its locks are gone all the same.
        wait_for(lambda: is_free(flock))
        wait_for(lambda: find_holder(posix) is None)


def test_shared_users_exclude_nobody_but_the_one_who_asks_for_all(tmp_path: Path) -> None:
    path = tmp_path / "users"
    first, second = SharedLock(path), SharedLock(path)
    first.hold()
    first.hold()
    second.hold()
    first.release()
    first.release()
    assert not is_free(path)
    second.release()
    assert is_free(path)


def test_a_forked_child_cannot_leave_for_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVE_IN_A_CHILD, str(tmp_path / "users")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=30)


def test_waiting_for_a_lock_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "transition"
    soon = time.monotonic() + 0.05
    with exclusive(path, 0), pytest.raises(PostgresUnavailable), exclusive(path, soon):
        pass
    with exclusive(path, 0):
        assert not is_free(path)


def test_a_past_deadline_still_gives_one_turn() -> None:
    assert len(list(turns_until(0))) == 1


def test_a_new_lock_file_belongs_to_the_owner_of_its_folder(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 65534, 65534)
    assert is_free(tmp_path / "lock")
    assert (tmp_path / "lock").stat().st_uid == tmp_path.stat().st_uid
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
