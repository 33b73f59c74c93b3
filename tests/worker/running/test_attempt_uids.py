"""Users of their own: which one an attempt gets, for how long, and what it may do in its folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.worker.running import attempt_uids
from holdfast.worker.running.attempt_uids import AttemptUids, list_given, open_way
from tests.worker.own_uids import FIRST, RANGE, open_house


@pytest.fixture
def house() -> Iterator[Path]:
    """A folder that every user may enter."""
    with open_house() as folder:
        yield folder


def an_attempt(house: Path, name: str) -> Path:
    """Make the folder of an attempt, as it is before it is handed over."""
    folder = house / name
    folder.mkdir(mode=0o700)
    (folder / "input.json").write_text("1")
    (folder / "call.json").write_text("2")
    (folder / "order.json").write_text("secret")
    (folder / "order.json").chmod(0o600)
    (folder / "work").mkdir()
    (folder / "work" / "module.py").write_text("")
    (folder / "work" / "link").symlink_to(house / "outside")
    return folder


def run_as(uid: int, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as a user who has nothing but a number."""
    return subprocess.run(
        ["sh", "-c", script], user=uid, group=uid, extra_groups=(), cwd=folder / "work",
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_attempt_works_in_its_folder_and_touches_nothing_of_the_worker(house: Path) -> None:
    (house / "outside").write_text("")
    folder = an_attempt(house, "1.0.0")
    uid = AttemptUids(FIRST, FIRST + 9).give(folder)
    allowed = "cat ../input.json ../call.json && echo x > module.py && echo y > ../outcome.json"
    assert run_as(uid, f"{allowed} && echo z >> ../output.log", folder).returncode == 0
    for script in (
        "cat ../order.json",
        "rm -f ../order.json",
        "mv ../output.log ../mine",
        "echo > ../input.json",
        "chmod 777 ..",
        "echo > link",
    ):
        assert run_as(uid, script, folder).returncode != 0, script
    assert (house / "outside").stat().st_uid == 0
    assert (folder / "output.log").read_text() == "z\n"


def test_a_neighbour_reads_nothing_of_an_attempt(house: Path) -> None:
    uids = AttemptUids(FIRST, FIRST + 9)
    mine, others = an_attempt(house, "1.0.0"), an_attempt(house, "1.1.0")
    assert list_given(house / "nowhere") == list_given(house) == set()
    uid = uids.give(mine)
    assert list_given(house) == {uid}
    assert uids.give(others) != uid
    for script in (f"ls {others}", f"cat {others}/input.json", f"ls {others / 'work'}"):
        assert run_as(uid, script, mine).returncode != 0, script


def test_a_uid_is_taken_until_the_folder_is_gone_whoever_asks(house: Path) -> None:
    first = an_attempt(house, "1.0.0")
    assert AttemptUids(FIRST + 20, FIRST + 20).give(first) == FIRST + 20
    with pytest.raises(OSError, match="all 1 uids for attempts are taken"):
        AttemptUids(FIRST + 20, FIRST + 20).give(an_attempt(house, "1.1.0"))
    first.rename(house / "elsewhere")
    assert AttemptUids(FIRST + 20, FIRST + 20).give(an_attempt(house, "1.2.0")) == FIRST + 20


def test_a_uid_under_which_something_still_runs_is_not_given(house: Path) -> None:
    uids = AttemptUids(FIRST + 30, FIRST + 30)
    stray = subprocess.Popen(["sleep", "600"], user=FIRST + 30, extra_groups=())
    try:
        with pytest.raises(OSError, match="are taken"):
            uids.give(an_attempt(house, "1.0.0"))
    finally:
        stray.kill()
        stray.wait(30)
    assert uids.give(an_attempt(house, "1.1.0")) == FIRST + 30


@pytest.mark.parametrize(("name", "uid"), [(b"\xff", FIRST + 44), (b"a\x0bUid: 7", FIRST + 45)])
def test_a_uid_is_given_whatever_other_processes_are_called(
    house: Path, name: bytes, uid: int
) -> None:
    program = os.path.join(os.fsencode(house), name)
    os.symlink(os.fsencode(shutil.which("sleep") or ""), program)
    stray = subprocess.Popen(["sleep", "600"], executable=program)
    try:
        while Path(f"/proc/{stray.pid}/comm").read_bytes() != name + b"\n":
            assert stray.poll() is None  # it takes its name a moment after it was started
        assert AttemptUids(uid, uid).give(an_attempt(house, "1.0.0")) == uid
    finally:
        stray.kill()
        stray.wait(30)


def test_a_group_that_a_folder_has_from_its_parent_is_no_user_of_an_attempt(house: Path) -> None:
    os.chown(house, 0, FIRST + 50)
    house.chmod(0o2755)
    mine = an_attempt(house, "1.0.0")
    assert mine.stat().st_gid == FIRST + 50
    assert list_given(house) == set()
    elsewhere = house / "elsewhere"
    elsewhere.mkdir()
    AttemptUids(FIRST + 50, FIRST + 50).give(an_attempt(elsewhere, "1.1.0"))
    assert list_given(house) == set()  # its number is given, but to another attempt
    assert list_given(elsewhere) == {FIRST + 50}


def test_without_root_no_attempt_had_a_user_of_its_own(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AttemptUids(FIRST + 60, FIRST + 60).give(an_attempt(house, "1.0.0"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert list_given(house) == set()


@pytest.mark.parametrize("text", ["", "7", "a-b", "5-2000", "3000-2000", "1000-99999999999"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="attempt_uids"):
        AttemptUids.read(text)


def test_a_range_with_an_account_in_it_or_where_files_can_be_linked_is_refused(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AttemptUids.read(RANGE)
    with pytest.raises(Invalid, match="65534 is the account nobody"):
        AttemptUids.read("65000-66000")
    (house / "protected").write_text("0\n")
    monkeypatch.setattr(attempt_uids, "_HARDLINKS", house / "protected")
    with pytest.raises(Invalid, match="protected_hardlinks=1"):
        AttemptUids.read(RANGE)


def test_without_root_nobody_has_users_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Invalid, match="needs root"):
        AttemptUids.read(RANGE)


def test_a_python_that_others_cannot_run_is_refused(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house / "closed").mkdir(mode=0o700)
    (house / "closed" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(house / "closed" / "python"))
    with pytest.raises(Invalid, match=r"other users cannot run functions here: .*denied"):
        AttemptUids(FIRST, FIRST).check_python()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Invalid, match="other users cannot run functions here"):
        AttemptUids(FIRST, FIRST).check_python()
    monkeypatch.setattr(sys, "executable", "/bin/true")
    AttemptUids(FIRST, FIRST).check_python()


def test_the_way_is_opened_through_our_own_folders_alone(house: Path) -> None:
    top = house / "workers"
    top.mkdir(mode=0o700)
    open_way(top / "slot" / "attempts", top)
    assert {path.stat().st_mode & 0o777 for path in (top, *top.rglob("*"))} == {0o711}
    assert house.stat().st_mode & 0o777 == 0o755
    house.chmod(0o700)
    with pytest.raises(Invalid, match=f"other users cannot enter {house}"):
        open_way(top / "slot" / "attempts", top)
