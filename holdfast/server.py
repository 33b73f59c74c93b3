"""Build a server from its settings and run it until it is told to stop."""

import asyncio
import contextlib
import gc
import ipaddress
import resource
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn

from holdfast.api.app import build_app
from holdfast.errors import Invalid, Unavailable
from holdfast.services.runtime import Options, Runtime, open_runtime

GRACE_SECONDS = 20
BACKLOG = 1024
ALLOCATIONS_MIN = 10_000
FILES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; port 0 lets the system choose.

    By names other than those of loopback it is called through a proxy, if they are allowed.
    """

    host: str = "127.0.0.1"
    port: int = 7878
    allowed_hosts: tuple[str, ...] = ()


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
    check_loopback(address.host)
    listening = _bind(address)
    try:
        async with open_runtime(options) as runtime:
            config = uvicorn.Config(
                build_app(runtime, address.allowed_hosts),
                http="httptools",
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
            server = _Uvicorn(config)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                host, port = listening.getsockname()[:2]
                yield RunningServer(runtime, f"http://{_bracketed(host)}:{port}")
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


def collect_garbage_rarely() -> None:
    """Look for cycles after more allocations than usual, and never among what is loaded by now.

    A transaction makes thousands of rows that refer to nothing: to search them for cycles costs a
    third of the time in which they are worked on.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_MIN, 10, 10)


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


def check_loopback(host: str) -> None:
    """Refuse to be reachable from other machines: nothing here asks for a token yet."""
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise Invalid("host", f"{host!r} is not a loopback address; use 127.0.0.1 or ::1")


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
