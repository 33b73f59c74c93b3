"""The program between the supervisor and Postgres."""

import fcntl
import subprocess
import sys
from pathlib import Path

from holdfast.embedded import launch
from holdfast.embedded.launch import EXIT_LOCK_TAKEN, EXIT_REFUSED, Identity, Order, find_barrier


def carry_out(order: Order, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", launch.__file__, order.to_json(), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def an_order(folder: Path, *command: str) -> Order:
    lock = str(folder / "server.lock")
    return Order(list(command), Identity(), str(folder), log=str(folder / "log"), server_lock=lock)


def test_an_order_survives_the_command_line() -> None:
    order = Order(
        ["/bin/true", "\udcff"], Identity(1, 2, 3), "/f", postmaster_lock="/p", stale=["/s"]
    )
    assert Order.from_json(order.to_json()) == order


def test_a_program_runs_with_its_output_in_the_log_and_its_exit_code_kept(tmp_path: Path) -> None:
    answer = carry_out(an_order(tmp_path, "/bin/sh", "-c", "echo said; exit 3"))
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "", "")
    assert (tmp_path / "log").read_text() == "said\n"


def test_a_taken_lock_is_told_and_nothing_runs(tmp_path: Path) -> None:
    with (tmp_path / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = carry_out(an_order(tmp_path, "/bin/sh", "-c", "echo said"))
    assert answer.returncode == EXIT_LOCK_TAKEN
    assert not (tmp_path / "log").exists()


def test_a_rehearsal_runs_nothing(tmp_path: Path) -> None:
    answer = carry_out(an_order(tmp_path, "/bin/sh", "-c", "echo said"), "--rehearse")
    assert answer.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("")
    answer = carry_out(an_order(tmp_path, str(tmp_path / "program")))
    assert answer.returncode == EXIT_REFUSED
    assert f"may not run {tmp_path / 'program'}" in answer.stderr


def test_there_is_no_barrier_on_an_open_way(tmp_path: Path) -> None:
    assert find_barrier(tmp_path / "anything") is None
