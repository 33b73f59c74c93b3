"""Ask a server whether it takes connections now: its files and locks also speak for a dying one.

A process that `kill -9` has hit keeps its locks, its socket and what it wrote until the kernel has
taken it apart. It answers nobody any more, and neither does one that is stopped.
"""

import socket
import struct
from contextlib import suppress
from pathlib import Path

PROTOCOL = 3 << 16
MESSAGE_BYTES_MAX = 10_000
READY, REFUSED = b"Z", b"E"
CANNOT_CONNECT_NOW = b"C57P03\0"
_TERMINATE = b"X\0\0\0\4"
_LENGTH = struct.Struct("!I")
_START = struct.Struct("!II")


def takes_connections(path: Path, seconds_max: float) -> bool:
    """Tell whether a server answers at its socket: it may be full, but not starting or dying."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds_max)
            connection.connect(str(path))
            return _greet(connection)
    except (OSError, EOFError):  # nobody there, no answer in time, or broken off: it is dying
        return False


def _greet(connection: socket.socket) -> bool:
    text = b"user\0postgres\0database\0postgres\0application_name\0holdfast\0\0"
    connection.sendall(_START.pack(_START.size + len(text), PROTOCOL) + text)
    while True:
        kind, body = _read_message(connection)
        if kind == REFUSED:
            return CANNOT_CONNECT_NOW not in body
        if kind == READY:
            with suppress(OSError):  # it has answered, whatever it does next
                connection.sendall(_TERMINATE)
            return True


def _read_message(connection: socket.socket) -> tuple[bytes, bytes]:
    kind = _read(connection, 1)
    [length] = _LENGTH.unpack(_read(connection, _LENGTH.size))
    if not _LENGTH.size <= length <= MESSAGE_BYTES_MAX:
        raise EOFError("that is not Postgres")
    return kind, _read(connection, length - _LENGTH.size)


def _read(connection: socket.socket, count: int) -> bytes:
    text = b""
    while len(text) < count:
        if not (more := connection.recv(count - len(text))):
            raise EOFError("broken off")
        text += more
    return text
