"""Where workers may be called: into the networks that the operator allows, beyond loopback by TLS.

A worker says by itself where it is to be called. Unless that is checked, whoever may register can
have the leader call any address that it reaches.
"""

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import ResolveResult

from holdfast.errors import Invalid
from holdfast.tls.watching import WatchedContext

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Host = ipaddress.IPv4Address | ipaddress.IPv6Address
LOOPBACK = ("127.0.0.0/8", "::1/128")
FLAG = "--worker-network"
# Of the time for a call: what cannot be connected to by then has certainly not been sent.
CONNECTING_SHARE = 0.5


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read networks, such as 10.0.0.0/8. Raises Invalid."""
    networks = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise Invalid("worker_network", f"{error}; write it like 10.0.0.0/8") from error
    return tuple(networks)


class Reach:
    """The networks in which workers are called, and the certificate that is shown there."""

    def __init__(
        self,
        networks: Sequence[str] = (),
        tls: WatchedContext | None = None,
        *,
        within: Sequence[str] = LOOPBACK,
    ) -> None:
        self._networks = read_networks((*within, *networks))
        self._tls = tls

    def find_problem(self, address: str) -> str | None:
        """Say why an address may not be called; None for a name, which is looked up by the call."""
        parts = urlsplit(address)
        try:
            host = ipaddress.ip_address(parts.hostname or "")
        except ValueError:
            return None
        return self._find_problem_of_host(host, parts.scheme)

    async def check(self, address: str) -> None:
        """Refuse an address that may not be called; one that is none is left to others."""
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError:
            return
        problem = self.find_problem(address)
        if problem is None and parts.hostname and _is_name(parts.hostname):
            problem = await self._find_problem_of_name(parts.hostname, port, parts.scheme)
        if problem is not None:
            raise Invalid("address", problem)

    @asynccontextmanager
    async def open_lines(self, call_seconds_max: float, calls_max: int) -> AsyncIterator["Lines"]:
        """Have connections only to where workers may be called, whatever their names mean now.

        Those in clear stand apart, with what is remembered of names: they stay on this host.
        """
        timeout = aiohttp.ClientTimeout(
            total=call_seconds_max, connect=call_seconds_max * CONNECTING_SHARE
        )

        def open_session(find_problem: Callable[[Host], str | None]) -> aiohttp.ClientSession:
            resolver = _WithinReach(find_problem)
            connector = aiohttp.TCPConnector(limit=calls_max, resolver=resolver)
            return aiohttp.ClientSession(timeout=timeout, connector=connector)

        async with (
            open_session(self._find_problem_in_clear) as clear,
            open_session(self._find_problem_by_tls) as tls,
        ):
            yield Lines(clear, tls)

    def context(self) -> ssl.SSLContext | bool:
        """Give what a call by TLS shows and trusts."""
        return True if self._tls is None else self._tls.current()

    async def _find_problem_of_name(self, host: str, port: int | None, scheme: str) -> str | None:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            return f"{host!r} is not known to this server: {error.strerror or error}"
        meant = [ipaddress.ip_address(entry[4][0]) for entry in found]
        problems = [self._find_problem_of_host(each, scheme) for each in meant]
        return next((problem for problem in problems if problem is not None), None)

    def _find_problem_of_host(self, host: Host, scheme: str) -> str | None:
        find = self._find_problem_by_tls if scheme == "https" else self._find_problem_in_clear
        return find(host)

    def _find_problem_by_tls(self, host: Host) -> str | None:
        is_within = any(host in network for network in self._networks)
        return None if is_within else _out_of_reach(str(host))

    def _find_problem_in_clear(self, host: Host) -> str | None:
        is_beyond = not host.is_loopback
        return self._find_problem_by_tls(host) or (_needs_tls(str(host)) if is_beyond else None)


class Lines(NamedTuple):
    """Connections to workers: in clear to those on this host, by TLS to all others."""

    clear: aiohttp.ClientSession
    tls: aiohttp.ClientSession

    def to(self, address: str) -> aiohttp.ClientSession:
        """Give those by which an address is called."""
        return self.tls if urlsplit(address).scheme == "https" else self.clear


class _WithinReach(aiohttp.ThreadedResolver):
    """Looks names up, and leaves out what they must not mean."""

    def __init__(self, find_problem: Callable[[Host], str | None]) -> None:
        super().__init__()
        self._find_problem = find_problem

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look a name up; raises OSError if nothing is left."""
        found = await super().resolve(host, port, family)
        problems = [self._find_problem(ipaddress.ip_address(each["host"])) for each in found]
        within = [each for each, problem in zip(found, problems, strict=True) if problem is None]
        if not within:
            raise OSError(errno.EACCES, next(filter(None, problems), _out_of_reach(host)))
        return within


def _is_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def _out_of_reach(host: str) -> str:
    return f"{host} is in no network where this server calls workers; allow it there with {FLAG}"


def _needs_tls(host: str) -> str:
    return f"{host} is another host, and those are called by https alone; start it with --tls-cert"


LOOPBACK_ONLY = Reach()
