"""Which thread starts processes and looks through /proc: both take too long for an event loop."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Calls = set[tuple[str, int]]
_noted: list[Calls] = []


@contextmanager
def noting_blocking_calls() -> Iterator[Calls]:
    """Note what blocks, with its thread, for the time of a block."""
    if not _noted:
        sys.addaudithook(_note)  # stays for good: a hook cannot be taken back
    calls: Calls = set()
    _noted.append(calls)
    try:
        yield calls
    finally:
        _noted[-1] = set()


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" or (event == "os.listdir" and arguments[0] == "/proc"):
        _noted[-1].add((event, threading.get_ident()))
