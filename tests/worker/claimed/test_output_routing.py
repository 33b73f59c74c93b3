"""Streams and log records of this process: kept with an attempt, and shown as before."""

import io
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest

from holdfast.worker.claimed.output_routing import (
    keep_output,
    route_streams,
    routed,
)
from tests.embedded.users import ROOT


def say(text: str) -> None:
    print(text)  # noqa: T201 - it is what is tested


class Kept(list[bytes]):
    """What an attempt has written."""

    def run(self, code: Callable[[], object]) -> bytes:
        """Run code as that of an attempt; returns what is kept of it."""
        self.clear()
        context = copy_context()
        context.run(keep_output.set, self.append)
        context.run(code)
        return b"".join(self)


@contextmanager
def working() -> Iterator[io.TextIOWrapper]:
    """Have both streams go to one, while a worker is open; pytest sets them anew after fixtures."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        with routed():
            yield stream
        assert sys.stdout is sys.stderr is stream


def text_of(shown: io.TextIOWrapper) -> str:
    assert isinstance(shown.buffer, io.BytesIO)
    return shown.buffer.getvalue().decode(errors="backslashreplace")


def test_what_an_attempt_writes_is_kept_and_shown_and_all_else_is_shown() -> None:
    kept = Kept()
    with working() as shown:
        assert kept.run(partial(say, "ann ä")) == "ann ä\n".encode()
        assert kept.run(lambda: sys.stderr.writelines(["one\n", "two\n"])) == b"one\ntwo\n"
        assert kept.run(lambda: sys.stdout.buffer.write(b"\xff\n")) == b"\xff\n"
        say("nobody")
    assert text_of(shown) == "ann ä\none\ntwo\n\\xff\nnobody\n"


def test_a_routed_stream_is_otherwise_what_it_was() -> None:
    with working() as shown:
        stream: Any = sys.stdout
        assert (stream.encoding, stream.isatty()) == ("utf-8", False)
        for wrong, error in ((b"bytes", TypeError), ("\ud800", UnicodeEncodeError)):
            with pytest.raises(error):
                Kept().run(partial(stream.write, wrong))
        with routed():
            assert stream.stream is shown
            assert sys.stdout is stream
        assert sys.stdout is stream


def test_streams_that_somebody_has_replaced_are_routed_again_and_left_alone_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as without a console
    with routed():
        other = io.StringIO()
        monkeypatch.setattr(sys, "stdout", other)
        route_streams()
        assert Kept().run(partial(say, "again")) == b"again\n"
    assert sys.stdout is other
    assert other.getvalue() == "again\n"


def test_log_records_are_kept_once_whoever_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With handlers of the program alone, and with one of user code that writes to the streams."""
    kept, logger = Kept(), logging.getLogger("tests.routing")
    warn = partial(logger.warning, "%s is low", "water")
    with working() as shown:
        assert kept.run(warn) == b"WARNING tests.routing: water is low\n"
        monkeypatch.setattr(logger, "handlers", [logging.StreamHandler()])
        assert kept.run(warn) == b"water is low\n"
        monkeypatch.setattr(logger, "propagate", False)
        assert kept.run(warn) == b"water is low\n"
        logger.warning("nobody's")
    assert text_of(shown) == "water is low\nwater is low\nnobody's\n"


def test_a_traceback_is_kept_and_a_record_that_cannot_be_written_hurts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        try:
            raise ValueError("boom")
        except ValueError:
            logging.getLogger("tests.routing").exception("broken")

    with working():
        content = Kept().run(fail)
        assert content.startswith(b"ERROR tests.routing: broken\nTraceback")
        assert content.endswith(b"ValueError: boom\n")
        # Without those of pytest, which raise.
        monkeypatch.setattr(logging.getLogger(), "handlers", logging.getLogger().handlers[-1:])
        content = Kept().run(partial(logging.getLogger("tests.routing").info, "%d", "x"))
        assert content == b""
        content = Kept().run(partial(logging.getLogger("tests.routing").error, "%d", "x"))
        assert b"--- Logging error ---" in content


def test_a_program_without_logging_writes_what_python_writes() -> None:
    program = (
        "import logging\n"
        "from holdfast.worker.claimed.output_routing import keep_output, routed\n"
        "kept = []\n"
        "with routed():\n"
        "    logging.warning('first')\n"
        "    logging.info('silent')\n"
        "    keep_output.set(kept.append)\n"
        "    logging.warning('second')\n"
        "print(kept)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stderr, done.stdout) == ("first\nsecond\n", "[b'WARNING root: second\\n']\n")
