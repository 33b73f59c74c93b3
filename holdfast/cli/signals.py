"""Signals that end a command: all of them take the way of Ctrl-C, which cleans up behind itself."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def end_on_signals() -> Iterator[Callable[[], int]]:
    """Turn the first request to terminate into a KeyboardInterrupt; yields which signal it was.

    Repeating the request changes nothing: the command is ending.
    """
    received: list[int] = []
    chosen = [number for number in _ENDING[1:] if signal.getsignal(number) is signal.SIG_DFL]

    def interrupt(number: int, _: FrameType | None) -> None:
        received.append(number)
        for later in chosen:
            signal.signal(later, signal.SIG_IGN)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # Started in the background by a script: Ctrl-C is not meant for it, but this is.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)  # asyncio has its own way with this one

    for number in chosen:
        signal.signal(number, interrupt)
    try:
        yield lambda: received[0] if received else int(signal.SIGINT)
    finally:
        if not received:
            for number in chosen:
                signal.signal(number, signal.SIG_DFL)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let a cleanup come to its end; a signal that arrives meanwhile is delivered after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
