"""By which names this server may be called, and from which pages.

On loopback a browser is let in without a token, so another site's page must not reach it: neither
as itself, which its Origin tells, nor under a name of its own that leads to this machine (DNS
rebinding), which only the Host tells.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping

from holdfast.api.errors import ForeignHost, ForeignOrigin
from holdfast.errors import Invalid

KNOWN_MAX = 256


def is_secure_page(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether the page that sends a request came by https, here or at a proxy.

    The browser says so itself, of every change that a page asks for. By plain HTTP nobody logs in
    but on his own machine; who sends no Origin is no browser, and keeps no cookie for anybody.
    """
    scheme, _, host = headers.get(b"origin", b"https://").lower().partition(b"://")
    if scheme == b"http" and not _is_loopback(_without_port(host)):
        problem = f"{host.decode('latin-1')} is called by plain HTTP, and others see what is sent"
        raise Invalid("Origin", f"{problem}; log in by https")
    return scheme != b"http"


class Hosts:
    """The hosts that are this server: every name of loopback, and those that were allowed.

    So are those that its certificate is for; `certified` gives the same tuple until they change.
    """

    def __init__(
        self, allowed: Iterable[str] = (), certified: Callable[[], tuple[str, ...]] = tuple
    ) -> None:
        self._given = tuple(allowed)
        self._certified = certified
        self._names = certified()
        self._allowed = _lowered((*self._given, *self._names))
        # Every request asks, and nearly all with the same few hosts.
        self._known: set[bytes] = set()

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request that was not meant for this server, or that another site's page sends.

        A caller without a Host is no browser, unless it shows an Origin.
        """
        names = self._certified()
        if names is not self._names:
            self._names, self._allowed = names, _lowered((*self._given, *names))
            self._known.clear()
        host = headers.get(b"host")
        if host is not None and host not in self._known:
            if not self._is_ours(host):
                raise ForeignHost(host.decode("latin-1"))
            if len(self._known) < KNOWN_MAX:
                self._known.add(host)
        origin = headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin, host)

    def _check_origin(self, origin: bytes, host: bytes | None) -> None:
        # A page of another port of this machine is another site. A proxy may have changed the Host.
        whence = origin.partition(b"://")[2].lower()
        if not whence or (whence != (host or b"").lower() and not self._is_allowed(whence)):
            raise ForeignOrigin(origin.decode("latin-1"))

    def _is_ours(self, host: bytes) -> bool:
        host = host.lower()
        return self._is_allowed(host) or _is_loopback(_without_port(host))

    def _is_allowed(self, host: bytes) -> bool:
        """Look it up with its port and without: an allowed host that names no port has them all.

        A certificate may be for *.example, which is every name of one more word.
        """
        name = _without_port(host)
        word, _, rest = name.partition(b".")
        found = host in self._allowed or name in self._allowed
        return found or (word != b"" and b"*." + rest in self._allowed)


def _lowered(hosts: Iterable[str]) -> frozenset[bytes]:
    return frozenset(host.lower().encode() for host in hosts)


def _without_port(host: bytes) -> bytes:
    name, _, port = host.rpartition(b":")
    return name if name and (port.isdigit() or not port) else host


def _is_loopback(name: bytes) -> bool:
    text = name.decode("latin-1")
    if text == "localhost" or text.endswith(".localhost"):
        return True
    try:
        if text.startswith("[") and text.endswith("]"):
            return ipaddress.IPv6Address(text[1:-1]).is_loopback
        return ipaddress.IPv4Address(text).is_loopback
    except ValueError:
        return False
