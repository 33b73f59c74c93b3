"""A real PgBouncer in transaction mode in front of a Postgres, for the time of a block.

The program is the system's, or HOLDFAST_PGBOUNCER; else Debian's packages are fetched and
unpacked below .tools, for which nobody has to be root.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from holdfast.embedded.locks import turns_until
from tests.debian import TOOLS, ProgramMissing, find_program

PACKAGES = ("pgbouncer", "libc-ares2", "libevent-2.1-7")
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 10
# For each database; a test holds a dozen transactions at once, and each of its pools some more.
CONNECTIONS_FOR_TESTS = 60
# PgBouncer refuses root, as Postgres does: root becomes somebody else in a namespace of users.
START = """
import os, sys
from holdfast.embedded.launch import Identity, become
become(Identity(uid_inside=65534) if os.geteuid() == 0 else Identity())
os.execv(sys.argv[1], sys.argv[1:])
"""
SETTINGS = """
[databases]
* = host={folder} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = {connections}
server_login_retry = 0
{more}
"""


class PgBouncer(NamedTuple):
    """A running one; its connections are shared between transactions."""

    port: int
    pid: int

    def url(self, direct: str) -> str:
        """Say where the database of a direct URL is found behind it."""
        parts = urlsplit(direct)
        name = quote(parts.username or "postgres", safe="")
        return f"postgresql://{name}@127.0.0.1:{self.port}{parts.path}?sslmode=disable"


@contextmanager
def running_pgbouncer(direct: str, *, connections: int = 4, more: str = "") -> Iterator[PgBouncer]:
    """Run a PgBouncer in front of all databases of a Postgres, whose URL names a socket."""
    parts = urlsplit(direct)
    asked = parse_qs(parts.query)
    own_port = _find_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pgbouncer.ini"
        log = Path(folder) / "log"
        file.write_text(
            SETTINGS.format(
                folder=asked["host"][0],
                port=asked["port"][0],
                user=parts.username,
                own_port=own_port,
                connections=connections,
                more=more,
            )
        )
        program = find_program("pgbouncer", PACKAGES, folder="sbin")
        process = _start(program, file, log)
        try:
            if not _is_there(process, own_port):
                raise ProgramMissing(f"{program} does not start: {log.read_text()}")
            yield PgBouncer(own_port, process.pid)
        finally:
            process.terminate()
            process.wait(STOP_SECONDS_MAX)


class Poolers:
    """A pooler in front of every Postgres that tests start, where they are to go through one."""

    def __init__(self, stack: ExitStack, *, is_wanted: bool) -> None:
        self._stack = stack
        self._is_wanted = is_wanted
        self._running: dict[tuple[str, str], PgBouncer] = {}

    def url(self, direct: str) -> str:
        """Say where Holdfast finds a database: behind the pooler, or at Postgres itself."""
        if not self._is_wanted:
            return direct
        asked = parse_qs(urlsplit(direct).query)
        where = (asked["host"][0], asked["port"][0])
        if where not in self._running:
            pooler = running_pgbouncer(direct, connections=CONNECTIONS_FOR_TESTS)
            self._running[where] = self._stack.enter_context(pooler)
        return self._running[where].url(direct)


def _is_there(process: "subprocess.Popen[bytes]", port: int) -> bool:
    for _ in turns_until(time.monotonic() + START_SECONDS_MAX):
        if process.poll() is not None:
            return False
        if _answers(port):
            return True
    return False


def _start(program: Path, file: Path, log: Path) -> "subprocess.Popen[bytes]":
    libraries = ":".join(str(path) for path in (TOOLS / "pgbouncer").glob("usr/lib/*-linux-*"))
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-c", START, str(program), str(file)],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
