"""Slots: who holds one, who held it last, and when it is free."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from holdfast.errors import Invalid, Unavailable
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.worker.slots import take_slot
from tests.embedded.users import wait_for
from tests.worker.living import FAMILY, Workers, await_process, lives

SECRET = "s" * 32


def previous_in(folder: Path) -> str | None:
    """Take the first slot and tell who held it last."""
    slot = take_slot(folder)
    slot.close()
    assert slot.number == 0
    return None if slot.previous is None else slot.previous.worker_id


def test_a_new_slot_has_no_previous_holder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "slots"
    assert previous_in(folder) is None
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_next_holder_learns_who_held_the_slot_last(tmp_path: Path) -> None:
    for incarnation in ("a-rather-long-incarnation", "short"):
        slot = take_slot(tmp_path)
        slot.record(WorkerCredential(incarnation, SECRET))
        slot.close()
        assert previous_in(tmp_path) == incarnation


def test_a_second_worker_gets_the_next_slot_until_there_is_none(tmp_path: Path) -> None:
    first, second = take_slot(tmp_path), take_slot(tmp_path)
    assert (first.number, second.number) == (0, 1)
    with pytest.raises(Unavailable, match="all 2 slots"):
        take_slot(tmp_path, slots_max=2)
    first.close()
    third = take_slot(tmp_path)
    assert third.number == 0
    second.close()
    third.close()


def test_a_slot_whose_holder_has_just_died_is_waited_for(tmp_path: Path) -> None:
    slot = take_slot(tmp_path)
    slot.record(WorkerCredential("crashed", SECRET))
    # Like a watchdog that still ends processes: the lock is free when it has read that.
    program = ["sh", "-c", "echo there; read ignored"]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[slot.fd]
    ) as holder:
        slot.close()
        assert holder.stdin is not None
        other = take_slot(tmp_path, left_by="somebody else")
        assert other.number == 1
        threading.Timer(0.1, holder.stdin.close).start()
        again = take_slot(tmp_path, left_by="crashed")
    assert (again.number, again.previous) == (0, WorkerCredential("crashed", SECRET))
    for held in (other, again):
        held.close()


def test_a_slot_whose_holder_has_just_died_comes_before_others_that_are_free(
    tmp_path: Path,
) -> None:
    first, second = take_slot(tmp_path), take_slot(tmp_path)
    first.record(WorkerCredential("left-long-ago", SECRET))
    second.record(WorkerCredential("crashed", SECRET))
    for held in (first, second):
        held.close()
    again = take_slot(tmp_path, left_by="crashed")
    again.close()
    assert (again.number, again.previous) == (1, WorkerCredential("crashed", SECRET))


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"worker", b"two words\n", b"one\ntwo\n", b"\xff\xfe\n", b"\0\0\n", b"x" * 129],
)
def test_a_damaged_record_names_nobody(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "slot-0.lock").write_bytes(content)
    assert previous_in(tmp_path) is None


def test_a_record_that_could_not_be_read_back_is_refused(tmp_path: Path) -> None:
    slot = take_slot(tmp_path)
    slot.record(WorkerCredential("good", SECRET))
    with pytest.raises(Invalid, match="incarnation"):
        slot.record(WorkerCredential("two\nlines", SECRET))
    slot.close()
    assert previous_in(tmp_path) == "good"


def test_the_secret_of_the_last_holder_is_for_the_next_one_alone(tmp_path: Path) -> None:
    slot = take_slot(tmp_path)
    slot.record(WorkerCredential("first", SECRET))
    assert SECRET.encode() not in os.pread(slot.fd, 4096, 0), "children are given the slot"
    slot.close()
    kept = tmp_path / "slot-0.secret"
    assert kept.stat().st_mode & 0o777 == 0o600
    again = take_slot(tmp_path)
    again.close()
    assert again.previous == WorkerCredential("first", SECRET)


@pytest.mark.parametrize(
    "left", [b"", b"first\n", b"other " + b"s" * 32, b"\xff", b"first short\n"]
)
def test_a_secret_that_is_not_that_of_the_last_holder_is_none(tmp_path: Path, left: bytes) -> None:
    slot = take_slot(tmp_path)
    slot.record(WorkerCredential("first", SECRET))
    slot.close()
    (tmp_path / "slot-0.secret").write_bytes(left)
    again = take_slot(tmp_path)
    again.close()
    assert again.previous == WorkerCredential("first", "")


def test_a_child_holds_the_slot_of_a_worker_that_is_gone(tmp_path: Path) -> None:
    slot = take_slot(tmp_path)
    assert os.get_inheritable(slot.fd)
    child = subprocess.Popen(["sleep", "600"], pass_fds=[slot.fd])
    slot.close()
    other = take_slot(tmp_path)
    assert other.number == 1
    other.close()
    child.kill()
    child.wait()
    assert previous_in(tmp_path) is None


def test_a_slot_is_free_only_when_all_processes_of_its_worker_are_gone(workers: Workers) -> None:
    worker = workers.start("first")
    worker.process.kill()

    def is_free() -> bool:
        slot = take_slot(workers.folder / "slots")
        slot.close()
        return slot.number == 0

    wait_for(is_free)
    assert worker.is_all_gone()
    assert previous_in(workers.folder / "slots") == "first"


def test_a_worker_finds_the_one_it_replaces(workers: Workers) -> None:
    first, neighbour = workers.start("first"), workers.start("neighbour")
    assert (first.told["slot"], neighbour.told["slot"]) == (0, 1)
    first.process.kill()
    wait_for(first.is_all_gone)
    second = workers.start("second")
    assert (second.told["slot"], second.told["previous"]) == (0, "first")
    assert all(lives(process) for process in neighbour.processes)


def test_a_process_that_nobody_can_find_keeps_the_slot_taken(workers: Workers) -> None:
    escape = "env -i setsid sh -c 'echo $$ > escaped; exec sleep 600' &"
    worker = workers.start("first", script=escape + FAMILY)
    escaped = await_process(workers.folder / "first" / "work" / "escaped")
    worker.process.kill()
    wait_for(worker.is_all_gone)
    try:
        second = take_slot(workers.folder / "slots")
        assert second.number == 1
        second.close()
        assert lives(escaped)
    finally:
        escaped.kill()
        escaped.wait(60)
    assert previous_in(workers.folder / "slots") == "first"
