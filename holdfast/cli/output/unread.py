"""Output whose reader has gone: it is dropped, and keeps no command from going on or ending.

So it is with `holdfast up 2>&1 | tee up.log`: Ctrl-C ends `tee` too, and `tee` is the quicker one.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


def open_missing() -> None:
    """Open what was closed when we were started, as by `2>&-`: it goes nowhere.

    Otherwise the next file or socket would take its number, and be written to by children.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


@contextmanager
def while_read(stream: TextIO) -> Iterator[None]:
    """Write to a stream and flush it; once that fails, all that is written to it goes nowhere."""
    try:
        yield
        stream.flush()
    except OSError:  # a broken pipe, a terminal that was closed, a full disk
        discard(stream)


class WhileRead:
    """A stream for a log: once it cannot be written, what is logged goes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a line, at once."""
        with while_read(self._stream):
            self._stream.write(text)

    def flush(self) -> None:
        """Do nothing: every line is written at once."""


def flush_at_end(*streams: TextIO) -> None:
    """Write what is left; what cannot be written changes no exit code."""
    for stream in streams:
        with while_read(stream):
            pass


def discard(stream: TextIO) -> None:
    """Let whatever is written to a stream go nowhere, and what is in its buffer too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
