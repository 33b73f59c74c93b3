"""The processes below one, listed and killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from holdfast.worker.processes import process_tree
from tests.embedded.users import wait_for
from tests.worker.living import lives

TREE = "sleep 600 & (sleep 600; true) & wait"


@pytest.fixture
def top() -> Iterator[psutil.Process]:
    """A shell above four processes: the second sleeper has a shell of its own."""
    with subprocess.Popen(["sh", "-c", TREE]) as process:
        shell = psutil.Process(process.pid)
        wait_for(lambda: sum(child.name() == "sleep" for child in living_below(shell)) == 2)
        below = living_below(shell)
        yield shell
        process.kill()
        for child in below:
            if lives(child):
                child.kill()


def living_below(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children(recursive=True) if lives(child)]


def test_a_session_is_listed_with_what_has_left_it_and_what_has_lost_its_parent() -> None:
    # One child is an orphan by now, the other has a session of its own.
    script = "(sleep 600 &) ; setsid sleep 600 & wait; sleep 600"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as process:
        found: dict[int, tuple[int, float]] = {}

        def has_all() -> bool:
            nonlocal found
            found = process_tree.list_sessions([process.pid, 1 << 30])[process.pid]
            names = [psutil.Process(pid).name() for pid in found if psutil.pid_exists(pid)]
            return sorted(names) == ["sh", "sleep", "sleep"]

        try:
            wait_for(has_all)
        finally:
            for pid in found:
                os.kill(pid, signal.SIGKILL)
    assert process.pid in found
    assert process_tree.list_sessions([1 << 30]) == {1 << 30: {}}


def test_the_cpu_of_a_process_is_read_until_it_is_reaped() -> None:
    script = "import time\nwhile time.process_time() < 0.3: pass"
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        wait_for(lambda: process_tree.has_ended(process.pid))
        seconds = process_tree.read_cpu_seconds(process.pid)
    assert seconds is not None
    assert seconds >= 0.25
    assert process_tree.read_cpu_seconds(process.pid) is None


@pytest.mark.parametrize("has_children_files", [True, False])
def test_all_that_lives_below_a_process_is_listed_with_its_memory(
    top: psutil.Process, has_children_files: bool
) -> None:
    below = living_below(top)
    listed = process_tree.list_tree(top.pid, has_children_files=has_children_files)
    assert set(listed) == {process.pid for process in below}
    for process in below:
        memory, cpu = listed[process.pid]
        assert 0 < memory < 2**30
        assert cpu <= sum(process.cpu_times()[:2])


def test_the_child_of_any_thread_is_listed() -> None:
    script = (
        "import os, threading\n"
        "def start():\n"
        "    os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '600')\n"
        "    print(flush=True)\n"
        "    input()\n"
        "threading.Thread(target=start).start()"
    )
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        [child] = process_tree.list_tree(process.pid)
        os.kill(child, signal.SIGKILL)
        process.communicate(b"\n")


def test_a_zombie_and_a_process_without_children_have_nobody(top: psutil.Process) -> None:
    with subprocess.Popen(["true"]) as process:
        wait_for(lambda: process_tree.has_ended(process.pid))
        assert process.pid not in process_tree.list_tree(os.getpid())
        assert process_tree.list_tree(process.pid) == {}
    leaf = next(child for child in living_below(top) if child.name() == "sleep")
    assert process_tree.list_tree(leaf.pid) == {}


def test_a_name_that_looks_like_fields_is_read_over() -> None:
    program = "import ctypes; ctypes.CDLL(None).prctl(15, b') Z 1 (x', 0, 0, 0); input()"
    command = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        wait_for(lambda: psutil.Process(process.pid).name().startswith(") Z"))
        assert process.pid in process_tree.list_tree(os.getpid())
        process.kill()


def test_what_is_listed_twice_is_killed(top: psutil.Process) -> None:
    below = living_below(top)
    assert process_tree.kill_listed(lambda: process_tree.list_tree(top.pid)) == len(below)
    wait_for(lambda: not any(lives(process) for process in below))


def test_a_number_that_is_not_listed_any_more_is_left_alone(top: psutil.Process) -> None:
    lists = iter([[top.pid], []])
    assert process_tree.kill_listed(lambda: next(lists)) == 0
    assert lives(top)


def test_neither_ourselves_nor_the_first_process_is_ever_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[int] = []

    def note(pid: int) -> int:
        opened.append(pid)
        return os.open(os.devnull, os.O_RDONLY)

    # Should the check be lost, the real calls would end the machine that runs this test.
    monkeypatch.setattr(os, "pidfd_open", note)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda pidfd, number: None)
    assert process_tree.kill_listed(lambda: [-1, 0, 1, os.getpid()]) == 0
    assert opened == []


def test_a_process_that_has_gone_is_no_trouble() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        assert process_tree.kill_listed(lambda: [process.pid]) == 0


def test_orphans_are_reaped_but_not_the_child_that_matters() -> None:
    script = (
        "import os\n"
        "from holdfast.worker.processes import process_tree\n"
        "child = os.fork() or os._exit(7)\n"
        "others = [os.fork() or os._exit(0) for _ in range(3)]\n"
        "[os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) for pid in [child, *others]]\n"
        "process_tree.reap_orphans(child)\n"
        "print(process_tree.has_ended(child), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "heard, said = os.pipe()\n"
        "kept = os.fork() or os.read(heard, 1) and os._exit(0)\n"
        "process_tree.reap_orphans(kept)\n"
        "print(process_tree.has_ended(kept))\n"
        "os.write(said, b'.')\n"
        "os.waitpid(kept, 0)\n"
    )
    answer = subprocess.check_output([sys.executable, "-c", script], text=True, timeout=60)
    assert answer.split() == ["True", "7", "False"]
