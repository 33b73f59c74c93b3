"""A TLS context that follows its files: who renews a certificate does not restart anything.

Files are looked at when a connection is made, once a second at most. New ones that cannot be used
are logged once, and the old ones stay in use.
"""

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.errors import Invalid

log = logging.getLogger("holdfast.tls")
LOOK_SECONDS = 1.0
Stamp = tuple[int, int, int] | None


class WatchedContext:
    """The context that is built from the files as they are now."""

    def __init__(
        self,
        files: Sequence[Path],
        build: Callable[[], ssl.SSLContext],
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._files = files
        self._build = build
        self._look_seconds = look_seconds
        self._looked_at = time.monotonic()
        # Before the files are read: what changes meanwhile is read again.
        self._stamps = self._list_stamps()
        self._context = build()

    def current(self) -> ssl.SSLContext:
        """Give the context for a new connection."""
        now = time.monotonic()
        if now - self._looked_at >= self._look_seconds:
            self._looked_at = now
            self.look()
        return self._context

    def look(self) -> bool:
        """Read the files again if they have changed; says whether they have, and can be used."""
        stamps = self._list_stamps()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        try:
            self._context = self._build()
        except Invalid as error:
            log.error("the new TLS files are not used, the old ones stay in use: %s", error)
            return False
        log.info("new TLS files are in use: %s", ", ".join(str(path) for path in self._files))
        return True

    def listening(self) -> ssl.SSLContext:
        """Make the context of a listener: each connection gets the one that is current then."""
        context = self._build()

        def choose(connection: ssl.SSLObject, _name: str | None, _context: object) -> None:
            connection.context = self.current()

        context.sni_callback = choose  # called for callers that give no name, too
        return context

    def _list_stamps(self) -> list[Stamp]:
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
