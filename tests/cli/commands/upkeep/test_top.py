"""`top`: on a terminal until q, in a pipe once, and on a server that goes and comes back."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.cli.commands.upkeep.top import View, Watch
from tests.cli.conftest import Service, living, served_at
from tests.cli.program import PROGRAM, SECONDS_MAX, environment, eventually, run
from tests.cli.test_connect import reserved_port


def test_in_a_pipe_it_writes_one_look_in_plain_text(service: Service) -> None:
    queue, name = f"q{uuid4().hex[:8]}", f"bad\x1b[2J{uuid4().hex[:8]}"
    service.submit("tests.cli.tasks:add", "--arg=1", f"--queue={queue}", f"--name={name}")
    ended = service.run("top")
    assert (ended.code, ended.err) == (0, "")
    assert "\x1b" not in ended.out
    assert ended.out.startswith("tasks    ")
    assert "handy" in ended.out
    assert queue in ended.out
    found = json.loads(service.run("top", "--once", "--json").out)
    assert queue in [each["queue"] for each in found["queues"]]
    assert found["rates"].keys() >= {"succeeded", "failed"}


def test_for_programs_it_goes_on_a_look_a_line(service: Service) -> None:
    process = service.start("top", "--json", "--interval", "0.5")
    assert process.stdout is not None
    looks = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert looks[0]["at_ms"] <= looks[1]["at_ms"]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.communicate()


def test_what_cannot_be_is_refused() -> None:
    ended = run("top", "--interval", "0.1")
    assert (ended.code, "interval: is 0.1; use 0.5 to 3600" in ended.err) == (2, True)


class Terminal:
    """A terminal on which `top` runs; what it shows is read as it comes."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.shown = ""

    def press(self, keys: str) -> None:
        os.write(self._number, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read on until a text is shown, from what was read before on."""
        while text not in self.shown:
            ready, _, _ = select.select([self._number], [], [], SECONDS_MAX)
            assert ready, (text, self.shown)
            self.shown += os.read(self._number, 65536).decode(errors="ignore")
        self.shown = self.shown.partition(text)[2]


@contextmanager
def top_on_terminal(server: str) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown = environment(TERM="xterm-256color", HOLDFAST_SERVER=server)
    del shown["COLUMNS"]
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [PROGRAM, "top", "--interval=0.5"],
        env=shown, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    end = threading.Timer(SECONDS_MAX, process.kill)
    end.start()
    try:
        yield Terminal(ours), process
        assert termios.tcgetattr(theirs) == before
    finally:
        end.cancel()
        process.kill()
        process.wait(60)
        os.close(theirs)
        os.close(ours)


def test_on_a_terminal_keys_sort_and_choose_and_q_ends_it(service: Service) -> None:
    with top_on_terminal(service.url) as (terminal, process):
        terminal.wait_for("holdfast top")
        terminal.wait_for("handy")
        terminal.press("s")
        terminal.wait_for("(name)")
        terminal.press("/nothing\r")
        terminal.wait_for("only: nothing")
        terminal.press("\x1b[A")  # an arrow is no key of ours
        terminal.press("q")
        terminal.wait_for("\x1b[?1049l")  # back to what was there before
        assert process.wait(60) == 0


def test_a_server_that_goes_away_and_comes_back_is_waited_for(
    database_url: str, tmp_path: Path
) -> None:
    with reserved_port() as port:
        pass
    command = ("server", f"--database-url={database_url}", f"--port={port}")
    watch = Watch(f"http://127.0.0.1:{port}", 0.5)
    thread = threading.Thread(target=watch.run, daemon=True)
    try:
        with living(tmp_path, *command) as server:
            served_at(server)
            thread.start()
            eventually(lambda: watch.look)
            assert watch.away() is None
        eventually(watch.away)
        assert watch.look is not None
        with living(tmp_path, *command) as server:
            served_at(server)
            eventually(lambda: watch.away() is None)
    finally:
        watch.is_over.set()
        thread.join(60)
    assert watch.refused is None


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", View()),
        ("s", View(sort="name")),
        ("sss", View()),
        ("/ab\x7fq", View(only="aq", is_typing=True)),
        ("/ab\rs", View(only="ab", sort="name")),
        ("/ab\r\x1b", View()),
        ("/ab\x1b", View()),
        ("zx\t", View()),
    ],
)
def test_keys(keys: str, expected: View) -> None:
    view = View()
    assert all(view.press(key) for key in keys)
    assert view == expected
    view.is_typing = False
    assert not view.press("q")


def test_nobody_is_away_before_he_was_missed() -> None:
    watch = Watch("http://x", 1.0)
    assert watch.away() is None
    watch.away_since, watch.reason = 0.0, "refused"
    assert (watch.away() or "").endswith(": refused")
