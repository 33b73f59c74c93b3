"""The way of a command to the server; without one it says so, and what to do."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.cli.output.write import remark
from holdfast.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.client.context import Lease

PATIENCE_SECONDS = 30.0
KNOCK_SECONDS_MAX = 10.0
KNOCK_PAUSE_SECONDS = 0.2


@contextmanager
def open_client(server: str | None, *, patience: float = PATIENCE_SECONDS) -> Iterator["Client"]:
    """Connect to the server that is meant, for the time of a block."""
    from holdfast.client.client import Client
    from holdfast.client.transport import find_server

    url = find_server(server)
    knock(url)
    with Client(url, patience=patience) as client:
        yield client


def own_lease(client: "Client") -> "Lease":
    """Find the lease of the task that this command runs in."""
    from holdfast.client.context import find_lease

    lease = find_lease(client.server)
    if lease is None:
        raise Invalid(
            "HOLDFAST_LEASE_TOKEN",
            f"is no lease of {client.server}: only a running task speaks there, on its own server",
        )
    return lease


def knock(url: str) -> None:
    """Wait a little for a server that is just starting, and say so; then give up."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    ends_at = time.monotonic() + KNOCK_SECONDS_MAX
    has_said = False
    while True:
        try:
            socket.create_connection((parts.hostname, port), KNOCK_SECONDS_MAX).close()
            return
        except OSError as error:
            if time.monotonic() >= ends_at:
                raise Unavailable(
                    f"no server answers at {url} ({error.strerror or error}); start one with "
                    "`holdfast up`, or name it with --server or HOLDFAST_SERVER"
                ) from error
        if not has_said:
            has_said = True
            remark(f"holdfast: no server at {url} yet; trying for {KNOCK_SECONDS_MAX:g} s")
        time.sleep(KNOCK_PAUSE_SECONDS)
