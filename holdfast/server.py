"""Build a server from its settings and run it until it is told to stop."""

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import uvicorn

from holdfast.api.app import build_app
from holdfast.api.guards import Guards
from holdfast.errors import Unavailable
from holdfast.model.limits.server_limits import ServerLimits
from holdfast.rules.binding import check_bind
from holdfast.services.chores import Chore, run_in_background
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.tls.serving import ServerTls

GRACE_SECONDS = 20
BACKLOG = 1024
# What a server opens beside the connections of its callers: Postgres, workers, logs, files.
FILES_OF_ITS_OWN = 256
FILES_MAX = 65_536
TLS_LOOK_SECONDS = 5.0
EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; port 0 lets the system choose.

    By names other than those of loopback it is called through a proxy, if they are allowed.
    """

    host: str = "127.0.0.1"
    port: int = 7878
    allowed_hosts: tuple[str, ...] = ()
    tls: ServerTls | None = None
    # TLS ends there; without it, or TLS of our own, nobody beyond loopback is served.
    behind_proxy: bool = False


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers."""

    runtime: Runtime
    url: str


class _Uvicorn(uvicorn.Server):
    """Leaves signals to whoever runs the process: there is more to stop than HTTP."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve(options: Options, address: Address) -> AsyncIterator[RunningServer]:
    """Serve for the time of a block; what is in flight at its end is finished and answered."""
    check_bind(
        address.host,
        requires_tokens=options.requires_tokens,
        has_tls=address.tls is not None,
        behind_proxy=address.behind_proxy,
    )
    listening = _bind(address)
    try:
        async with open_runtime(options) as runtime:
            guards = Guards(_fit(options.server_limits), runtime.metrics.count_refusal)
            runtime.metrics.watch("connections", "Open connections.", lambda: guards.open)
            config = uvicorn.Config(
                build_app(runtime, _list_hosts(address), _names_of(address.tls)),
                http=guards.protocol(),
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_SECONDS,
                backlog=BACKLOG,
            )
            _set_tls(config, runtime, address.tls)
            server = _Uvicorn(config)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                host, port = listening.getsockname()[:2]
                scheme = "http" if address.tls is None else "https"
                async with run_in_background(_list_chores(address.tls)):
                    yield RunningServer(runtime, f"{scheme}://{_bracketed(host)}:{port}")
            finally:
                await runtime.stop()
                server.should_exit = True
                await serving
    finally:
        listening.close()


def allow_many_files() -> None:
    """Raise this process's limit of open files: a leader holds a connection to every worker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def run_until_signalled() -> int:
    """Wait for the first request to end this process; returns the signal's number."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[int] = loop.create_future()

    def note(number: int) -> None:
        if not received.done():
            received.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, note, number)
    return await received


def _fit(limits: ServerLimits) -> ServerLimits:
    """Keep connections within what this process may open: beyond, none could be refused either."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits
    room = max(soft - FILES_OF_ITS_OWN, 1)
    return replace(limits, connections_max=min(limits.connections_max, room))


def _list_hosts(address: Address) -> list[str]:
    """List what it may be called, whatever its certificate is for: also its own address."""
    own = [] if address.host in EVERYWHERE else [address.host]
    return [*address.allowed_hosts, *own]


def _names_of(tls: ServerTls | None) -> Callable[[], tuple[str, ...]]:
    """Ask for the names of the certificate each time: another one may be in its place by then."""
    return tuple if tls is None else lambda: tls.names


def _set_tls(config: uvicorn.Config, runtime: Runtime, tls: ServerTls | None) -> None:
    if tls is not None:
        config.load()
        config.ssl = tls.listening()
        runtime.metrics.watch_certificate(lambda: tls.expires_at)
        runtime.presence.certificate = lambda: tls.expires_at


def _list_chores(tls: ServerTls | None) -> list[Chore]:
    """List what is to be done while it listens; new certificates count although nobody connects."""
    return [] if tls is None else [Chore("look at TLS files", TLS_LOOK_SECONDS, tls.look)]


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Bound and listening before anybody is told of it: the first request waits, none is refused.
    # TCP by name: only then does asyncio switch off Nagle's delay on what is accepted.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address.host, address.port))
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        raise Unavailable(f"cannot listen on {address.host}:{address.port}: {error}") from error
    return bound


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
