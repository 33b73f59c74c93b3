"""A CA for tests, and a handshake in memory: who shows what, and who refuses it."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.tls.authority import Role, create_authority, issue
from holdfast.tls.contexts import Identity

LOOPBACK = ("127.0.0.1", "localhost")


class TestAuthority:
    """A CA in a folder."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca_file = create_authority(folder, datetime.now(UTC)).cert

    def issue(
        self,
        name: str,
        *hosts: str,
        role: Role = "server",
        days: int = 90,
        ago: timedelta = timedelta(),
    ) -> Identity:
        """Issue a certificate for loopback, or for other hosts, as if some time ago."""
        now = datetime.now(UTC) - ago
        return Identity(*issue(self.folder, name, hosts or LOOPBACK, now=now, days=days, role=role))


def put(new: Identity, into: Identity) -> None:
    """Put a certificate and its key in the place of others, as who renews them does."""
    new.key.rename(into.key)
    new.cert.rename(into.cert)


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Let a caller and a listener meet; returns their ends. Raises what either refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(to_client, to_server, server_hostname=host)
    listener = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [caller, listener]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    assert not waiting, "they do not come to an end"
    return caller, listener
