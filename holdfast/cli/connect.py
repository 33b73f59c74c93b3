"""The way of a command to the server; without one it says so, and what to do."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.cli.output.write import remark
from holdfast.errors import Invalid, Unavailable
from holdfast.model.addresses import without_login

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
    with Client(url, patience=patience, codec=None) as client:
        yield client


def own_lease(client: "Client") -> "Lease":
    """Find the lease of the task that this command runs in."""
    from holdfast.client.context import find_lease

    lease = find_lease(client.server)
    if lease is None:
        raise Invalid(
            "HOLDFAST_LEASE_TOKEN",
            f"is no lease of {without_login(client.server)}: only a running task speaks there, "
            "on its own server",
        )
    return lease


def _shake_hands(connection: socket.socket, host: str | None, shown: str) -> None:
    """Refuse a certificate at once, where calls would be tried again for a while."""
    from holdfast.tls.calling import CertificateRefused, describe_refusal, open_calling

    try:
        open_calling().current().wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLError as error:
        refusal = describe_refusal(error, shown)
        if refusal is None:
            raise
        raise CertificateRefused(refusal) from error


def knock(url: str) -> None:
    """Wait a little for a server that is just starting, and say so; then give up."""
    parts, shown = urlsplit(url), without_login(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    ends_at = time.monotonic() + KNOCK_SECONDS_MAX
    has_said = False
    while True:
        try:
            with socket.create_connection((parts.hostname, port), KNOCK_SECONDS_MAX) as connection:
                if parts.scheme == "https":
                    _shake_hands(connection, parts.hostname, shown)
            return
        except OSError as error:
            if time.monotonic() >= ends_at:
                raise Unavailable(
                    f"no server answers at {shown} ({error.strerror or error}); start one with "
                    "`holdfast up`, or name it with --server or HOLDFAST_SERVER"
                ) from error
        if not has_said:
            has_said = True
            remark(f"holdfast: no server at {shown} yet; trying for {KNOCK_SECONDS_MAX:g} s")
        time.sleep(KNOCK_PAUSE_SECONDS)
