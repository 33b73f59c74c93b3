"""What counts as an answer of a server."""

import socket
import threading
from pathlib import Path

import pytest

from holdfast.embedded.greeting import takes_connections

AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"
READY = b"Z\0\0\0\5I"


def refusal(code: bytes) -> bytes:
    """Write an error as Postgres does."""
    body = b"SFATAL\0C" + code + b"\0Mno\0\0"
    return b"E" + (len(body) + 4).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("answer", "takes"),
    [
        (AUTHENTICATED + READY, True),
        (refusal(b"53300"), True),  # too many connections: whoever says so lives
        (refusal(b"57P03"), False),  # starting, or recovering
        (AUTHENTICATED, False),  # and broken off
        (b"", False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
    ],
)
def test_only_who_answers_as_postgres_takes_connections(
    tmp_path: Path, answer: bytes, takes: bool
) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1000)
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        assert takes_connections(path, 10) is takes
        server.join()


def test_nobody_there_and_nobody_who_answers_take_none(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    assert not takes_connections(path, 10)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert not takes_connections(path, 0.01)  # it is not listening
        listener.listen()
        assert not takes_connections(path, 0.01)  # it listens, and does not accept
