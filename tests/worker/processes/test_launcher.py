"""The launcher runs nothing until it has the whole order."""

import marshal
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.worker.processes import launcher
from tests.worker.own_uids import FIRST, open_house

SHOW_DISPOSITIONS = "grep SigIgn /proc/self/status; ls /proc/self/fd | wc -l"


def launch(order: bytes) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Hand an order to a launcher and hang up; returns its answer and how it ended."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            command = [sys.executable, "-I", "-S", launcher.__file__, str(theirs.fileno())]
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdout=pipe, stderr=pipe, text=True
            )
        ours.sendall(order)
        ours.shutdown(socket.SHUT_WR)
        answer = ours.recv(4096).decode()
    output, errors = process.communicate(timeout=60)
    return answer, subprocess.CompletedProcess(command, process.returncode, output, errors)


def order(
    *argv: str, environment: dict[str, str] | None = None, folder: str = "/", uid: int = 0
) -> bytes:
    """Write an order."""
    whole: launcher.Order = (list(argv), environment or {"PATH": os.environ["PATH"]}, folder, uid)
    return marshal.dumps(whole)


def test_the_command_gets_its_arguments_environment_and_folder(tmp_path: Path) -> None:
    script = 'echo "$1" "$COLOUR" "$PWD"; env | wc -l; exit 7'
    environment = {"COLOUR": "blü", "PATH": os.environ["PATH"]}
    given = order("sh", "-c", script, "sh", "a b", environment=environment, folder=str(tmp_path))
    answer, ended = launch(given)
    assert (answer, ended.returncode, ended.stderr) == ("", 7, "")
    assert ended.stdout.splitlines()[0] == f"a b blü {tmp_path}"


@pytest.mark.parametrize("missing", [1, 5, 10_000])
def test_an_order_that_was_cut_short_is_not_carried_out(tmp_path: Path, missing: int) -> None:
    given = order("touch", "made", folder=str(tmp_path))
    answer, ended = launch(given[:-missing])
    assert (answer, ended.returncode, ended.stderr) == ("", 0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_command_inherits_neither_the_socket_nor_signals_ignored_by_python() -> None:
    _, ended = launch(order("sh", "-c", SHOW_DISPOSITIONS))
    ignored, descriptors = ended.stdout.splitlines()
    mask = int(ignored.split()[1], 16)
    assert not mask & (1 << signal.SIGPIPE - 1)
    assert not mask & (1 << signal.SIGXFSZ - 1)
    assert int(descriptors) == 4  # the three of old, and the folder that `ls` reads


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (order("no-such-program"), "cannot run 'no-such-program': No such file"),
        (order("/etc/passwd"), "cannot run '/etc/passwd': Permission denied"),
        (order("/bin"), "cannot run '/bin': Permission denied"),
        (order("echo", "a\0b"), "cannot run 'echo': embedded null byte"),
        (order("echo", environment={"A=B": "c"}), "cannot run 'echo': illegal environment"),
        (order("echo", "x" * 10**6), "cannot run 'echo': Argument list too long"),
        (order("echo", folder="/nowhere"), "cannot enter the folder '/nowhere': No such file"),
        (order("echo", folder="/etc/passwd"), "cannot enter the folder '/etc/passwd': Not a dir"),
    ],
)
def test_what_cannot_be_run_is_answered_with_the_reason(given: bytes, reason: str) -> None:
    answer, ended = launch(given)
    assert answer.startswith(reason)
    assert ended.stderr == ""


def test_with_a_uid_the_command_is_that_user_alone_and_stays_so() -> None:
    show = "id -u; id -g; id -G; grep -E 'CapEff|CapPrm|NoNewPrivs' /proc/self/status | cut -f2"
    with open_house() as house:
        _, ended = launch(order("sh", "-c", show, uid=FIRST))
        assert ended.stdout.split() == [str(FIRST)] * 3 + ["0" * 16] * 2 + ["1"]
        (house / "closed").mkdir(mode=0o700)
        answer, _ = launch(order("true", folder=str(house / "closed"), uid=FIRST))
        assert "cannot enter the folder" in answer
        assert "Permission denied" in answer
