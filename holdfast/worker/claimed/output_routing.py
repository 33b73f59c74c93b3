"""Standard output, standard error and log records of user code, kept with their attempts.

A context variable says whose code it is: threads and coroutines of the worker have it, and so
have tasks and `asyncio.to_thread` of user code. Everything goes where it went before as well:
whoever watches the worker sees what it does. What belongs to no attempt goes nowhere else.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from holdfast.worker.running.record_lines import RecordLines

STREAMS = ("stdout", "stderr")
# What keeps the output of the attempt whose code this is.
keep_output: ContextVar[Callable[[bytes], None] | None] = ContextVar(
    "holdfast_output", default=None
)


class RoutedBytes:
    """A binary stream; what an attempt writes to it is kept, too."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, content: Any) -> Any:
        """Write to the stream."""
        keep = keep_output.get()
        if keep is not None:
            keep(bytes(content))
        return self._stream.write(content)

    def writelines(self, lines: Any) -> None:
        """Write several lines to the stream."""
        for line in lines:
            self.write(line)


class RoutedText(RoutedBytes):
    """A text stream; what an attempt writes to it is kept, too."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        if hasattr(stream, "buffer"):
            self.buffer = RoutedBytes(stream.buffer)

    @property
    def stream(self) -> Any:
        """The stream itself."""
        return self._stream

    def write(self, content: Any) -> Any:
        """Write to the stream."""
        keep = keep_output.get()
        if keep is not None and isinstance(content, str):
            keep(content.encode(errors="backslashreplace"))
        return self._stream.write(content)


class RecordKeeper(logging.Handler):
    """Keeps the log records of attempts, unless another handler writes them to a routed stream."""

    workers = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record as a line of its attempt."""
        keep, others = keep_output.get(), self._list_others(record.name)
        if not others:
            _write_as_without_handlers(record)
        if keep is None or any(map(_is_routed, others)):
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as all handlers do: user code is not to hear of it
            self.handleError(record)
        else:
            keep(f"{line}\n".encode(errors="backslashreplace"))

    def _list_others(self, name: str) -> list[logging.Handler]:
        """List the handlers that get the records of a logger beside this one."""
        found: list[logging.Handler] = []
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            found += (handler for handler in logger.handlers if handler is not self)
            logger = logger.parent if logger.propagate else None
        return found


_records = RecordKeeper()
_records.setFormatter(RecordLines())


@contextmanager
def routed() -> Iterator[None]:
    """Keep what attempts write, for the time that a worker is open; there may be several."""
    _records.workers += 1
    if _records.workers == 1:
        logging.getLogger().addHandler(_records)
    route_streams()
    try:
        yield
    finally:
        _records.workers -= 1
        if not _records.workers:
            logging.getLogger().removeHandler(_records)
            for name in STREAMS:
                if isinstance(stream := getattr(sys, name), RoutedText):
                    setattr(sys, name, stream.stream)


def route_streams() -> None:
    """Route the standard streams, if they are not; others, such as pytest, set them anew."""
    for name in STREAMS:
        stream = getattr(sys, name)
        if stream is not None and type(stream) is not RoutedText:
            setattr(sys, name, RoutedText(stream))


def _write_as_without_handlers(record: logging.LogRecord) -> None:
    """Write what Python itself writes to standard error while nobody has set up logging."""
    last = logging.lastResort
    if last is not None and record.levelno >= last.level:
        token = keep_output.set(None)
        try:
            last.handle(record)
        finally:
            keep_output.reset(token)


def _is_routed(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and isinstance(handler.stream, RoutedBytes)
