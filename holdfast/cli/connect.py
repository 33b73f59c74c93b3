"""The way of a command to the server; without one it says so at once, and what to do."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from holdfast.client.client import Client

KNOCK_SECONDS_MAX = 5.0


@contextmanager
def open_client(server: str | None) -> Iterator["Client"]:
    """Connect to the server that is meant, for the time of a block."""
    from holdfast.client.client import Client
    from holdfast.client.transport import find_server

    url = find_server(server)
    knock(url)
    with Client(url) as client:
        yield client


def knock(url: str) -> None:
    """Refuse a server where nobody listens: a client would try for half a minute."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Invalid("server", f"{url!r} is not a URL: {error}") from error
    if not parts.hostname:
        raise Invalid("server", f"{url!r} names no host; write it like http://127.0.0.1:7878")
    try:
        socket.create_connection((parts.hostname, port), KNOCK_SECONDS_MAX).close()
    except OSError as error:
        raise Unavailable(
            f"no server answers at {url} ({error.strerror or error}); start one with "
            "`holdfast up`, or name it with --server or HOLDFAST_SERVER"
        ) from error
