"""TLS of a server: the certificate that it shows, as long as callers would accept it."""

import logging
import ssl
from datetime import datetime
from pathlib import Path

from holdfast.tls.certificates import check_valid, list_names, utc_now, warning_of
from holdfast.tls.contexts import Identity, build_server_context
from holdfast.tls.watching import WatchedContext

log = logging.getLogger("holdfast.tls")


class ServerTls:
    """The certificate of a server; one that has expired is refused, also as a new one."""

    def __init__(self, identity: Identity, client_ca: Path | None = None) -> None:
        self.identity = identity
        self.names: tuple[str, ...]
        self.expires_at: datetime
        self._client_ca = client_ca
        self.asks_for_certificates = client_ca is not None
        files = [identity.cert, identity.key]
        self._watched = WatchedContext(
            files if client_ca is None else [*files, client_ca], self._build
        )

    def listening(self) -> ssl.SSLContext:
        """Make the context of a listener."""
        return self._watched.listening()

    async def look(self) -> int:
        """Look whether the files have changed; one step of a chore."""
        self._watched.look()
        return 0

    def _build(self) -> ssl.SSLContext:
        now = utc_now()
        expires_at = check_valid(self.identity.cert, now)
        context = build_server_context(self.identity, self._client_ca)
        self.expires_at, self.names = expires_at, tuple(list_names(self.identity.cert))
        if (warning := warning_of(self.identity.cert, now)) is not None:
            log.warning("%s", warning)
        return context
