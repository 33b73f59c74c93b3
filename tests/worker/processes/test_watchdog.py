"""The watchdog, told by a test in place of a worker."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.worker.processes import watchdog
from holdfast.worker.processes.clock import boot_clock
from tests.embedded.users import wait_for
from tests.worker.living import Workers, a_token, lives, start_sleeper
from tests.worker.own_uids import FIRST, open_house

FAR = boot_clock() + 36_000
PAST = 0.0
MARKS = [a_token() for _ in range(4)]


@contextmanager
def a_watchdog(worker_pid: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a watchdog for the test's process, or for the pid given."""
    command = [sys.executable, "-I", "-S", watchdog.__file__, str(worker_pid or os.getpid())]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        yield process


def tell(process: subprocess.Popen[bytes], *lines: str) -> None:
    """Write lines to a watchdog, in one piece."""
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())


def hang_up(process: subprocess.Popen[bytes]) -> int:
    """Close a watchdog's stdin and wait for its end."""
    assert process.stdin is not None
    process.stdin.close()
    return process.wait(60)


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Four process groups, each with a mark of its own."""
    started = [start_sleeper(mark) for mark in MARKS]
    yield started
    for process in started:
        process.kill()
        process.wait(30)


def test_a_group_is_killed_when_its_deadline_passes(
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    overdue, soon, far, unknown = sleepers
    with a_watchdog() as process:
        tell(
            process,
            f"group {overdue.pid} {MARKS[0]} 0 {PAST}",
            f"group {far.pid} {MARKS[2]} 0 {FAR}",
        )
        assert overdue.wait(60) == -signal.SIGKILL
        tell(process, f"group {soon.pid} {MARKS[1]} 0 {boot_clock() + 0.1}")
        assert soon.wait(60) == -signal.SIGKILL
        assert lives(far)
        assert lives(unknown)
        tell(process, f"forget {far.pid}")
        assert hang_up(process) == 0


def test_a_renewed_group_lives_on(sleepers: list[subprocess.Popen[bytes]]) -> None:
    renewed, other, _, _ = sleepers
    with a_watchdog() as process:
        soon = boot_clock() + 0.1
        tell(
            process,
            f"group {renewed.pid} {MARKS[0]} 0 {soon}",
            f"group {renewed.pid} {MARKS[0]} 0 {FAR}",
        )
        tell(process, f"group {other.pid} {MARKS[1]} 0 {soon + 0.1}")
        other.wait(60)
        assert lives(renewed)
        tell(process, f"group {renewed.pid} {MARKS[0]} 0 {PAST}")
        renewed.wait(60)
        hang_up(process)


@pytest.mark.parametrize("word", [[], ["stop"]])
def test_the_end_of_input_and_a_word_end_what_is_known_and_not_forgotten(
    sleepers: list[subprocess.Popen[bytes]], word: list[str]
) -> None:
    first, second, forgotten, unknown = sleepers
    with a_watchdog() as process:
        tell(process, *(f"group {sleepers[n].pid} {MARKS[n]} 0 {FAR}" for n in range(3)))
        tell(process, f"forget {forgotten.pid}", *word)
        if word:
            assert process.wait(60) == 0
        assert hang_up(process) == 0
    assert first.wait(60) == second.wait(60) == -signal.SIGKILL
    assert lives(forgotten)
    assert lives(unknown)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_process_outside_the_group_is_known_by_its_mark(
    sleepers: list[subprocess.Popen[bytes]], is_late: bool
) -> None:
    leader, stranger, _, _ = sleepers
    deserter = start_sleeper(MARKS[0])
    with a_watchdog() as process:
        tell(process, f"group {leader.pid} {MARKS[0]} 0 {PAST if is_late else FAR}")
        if not is_late:
            hang_up(process)
        assert deserter.wait(60) == leader.wait(60) == -signal.SIGKILL
        assert lives(stranger)


@pytest.mark.parametrize("younger_max", [0, 256])
def test_who_was_there_before_is_spared_however_many_came_since(
    sleepers: list[subprocess.Popen[bytes]], younger_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "YOUNGER_MAX", younger_max)
    older, first, *_ = sleepers
    later = start_sleeper(MARKS[0])
    assert older.pid < first.pid < later.pid, "the numbers have begun anew; run it again"
    assert watchdog.sweep([], [watchdog.entry_of(MARKS[0])], after=first.pid)
    assert later.wait(60) == -signal.SIGKILL
    assert lives(older)


def test_a_mark_that_only_begins_alike_is_another(sleepers: list[subprocess.Popen[bytes]]) -> None:
    leader = sleepers[0]
    longer = start_sleeper(MARKS[0] + "0")
    with a_watchdog() as process:
        tell(process, f"group {leader.pid} {MARKS[0]} 0 {FAR}")
        hang_up(process)
    leader.wait(60)
    assert lives(longer)
    longer.kill()
    longer.wait(30)


def test_polite_signals_do_not_stop_a_watchdog(sleepers: list[subprocess.Popen[bytes]]) -> None:
    leader = sleepers[0]
    with a_watchdog() as process:
        assert process.stdout is not None
        assert process.stdout.read(len(watchdog.READY)) == watchdog.READY
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        tell(process, f"group {leader.pid} {MARKS[0]} 0 {PAST}")
        leader.wait(60)
        assert hang_up(process) == 0


@pytest.mark.parametrize("line", ["grope", "group -5 mark 0 36000"])
def test_a_watchdog_that_does_not_understand_ends_what_it_knows(
    sleepers: list[subprocess.Popen[bytes]], line: str
) -> None:
    leader = sleepers[0]
    with a_watchdog() as process:
        tell(process, f"group {leader.pid} {MARKS[0]} 0 {FAR}", line)
        assert process.wait(60) != 0
        assert process.stderr is not None
        assert line.encode() in process.stderr.read()
    leader.wait(60)


@pytest.mark.parametrize("pgid", [1, 0, -1])
def test_a_group_that_would_mean_every_process_is_never_killed(
    pgid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    # Should the check be lost, the real call would end the machine that runs this test.
    monkeypatch.setattr(os, "killpg", lambda pgid, _: killed.append(pgid))
    with pytest.raises(ValueError):
        watchdog.kill_group(pgid)
    assert killed == []


def test_a_process_that_is_not_the_parent_is_never_killed_in_its_place(
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    leader, stranger, _, _ = sleepers
    with a_watchdog(worker_pid=stranger.pid) as process:
        tell(process, f"self {PAST}", f"group {leader.pid} {MARKS[0]} 0 {FAR}")
        leader.wait(60)
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert lives(stranger)


def test_a_worker_that_was_gone_first_leaves_its_groups_to_the_watchdog(
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    leader, dead, _, _ = sleepers
    dead.kill()
    dead.wait(30)
    with a_watchdog(worker_pid=dead.pid) as process:
        tell(process, f"group {leader.pid} {MARKS[0]} 0 {FAR}")
        hang_up(process)
    leader.wait(60)


def test_no_process_of_a_killed_worker_is_left(workers: Workers) -> None:
    worker, neighbour = workers.start("doomed"), workers.start("neighbour")
    assert all(lives(process) for process in worker.processes)
    worker.process.kill()
    wait_for(worker.is_all_gone)
    assert all(lives(process) for process in neighbour.processes)


@pytest.mark.parametrize("how", ["freeze", "hog"])
def test_a_worker_that_hangs_is_killed_at_its_deadline_with_all_its_processes(
    workers: Workers, how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    worker = workers.start("doomed")
    worker.tell(f"{how} self")
    assert worker.process.wait(60) == -signal.SIGKILL
    wait_for(worker.is_all_gone)
    assert "killed the worker" in capfd.readouterr().err


@pytest.mark.parametrize("how", ["freeze", "hog"])
def test_the_group_of_a_worker_that_hangs_is_killed_at_its_own_deadline(
    workers: Workers, how: str
) -> None:
    worker = workers.start("hanging")
    worker.tell(f"{how} group")
    wait_for(lambda: not any(lives(process) for process in worker.family))
    assert lives(worker.process)


@pytest.mark.parametrize("is_late", [False, True])
def test_all_processes_of_an_attempts_own_user_are_killed_and_no_others(
    sleepers: list[subprocess.Popen[bytes]], is_late: bool
) -> None:
    leader, other, _, _ = sleepers
    with open_house():
        strays = [
            subprocess.Popen(
                ["sleep", "600"], user=uid, extra_groups=(), env={}, start_new_session=True
            )
            for uid in (FIRST + 40, FIRST + 41)
        ]
        try:
            with a_watchdog() as process:
                line = f"group {leader.pid} {MARKS[0]} {FIRST + 40} {PAST if is_late else FAR}"
                tell(process, line)
                if not is_late:
                    hang_up(process)
                assert strays[0].wait(60) == leader.wait(60) == -signal.SIGKILL
            assert lives(strays[1])
            assert lives(other)
        finally:
            for stray in strays:
                stray.kill()
                stray.wait(30)


def test_root_is_nobodys_own_user() -> None:
    with pytest.raises(AssertionError, match="root"):
        watchdog.sweep([], [], uids=[0])
