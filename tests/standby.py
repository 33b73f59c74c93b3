"""A real standby: a copy of a running Postgres that follows it, and takes its place when asked."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil

from holdfast.embedded import EmbeddedPostgres, identity
from holdfast.embedded.binaries import get_binaries
from holdfast.embedded.launch import Order
from tests.databases import connect
from tests.killing import kill_and_see_gone
from tests.waiting import eventually

COPY_SECONDS_MAX = 120
ALL_APPLIED = (
    "select count(*) > 0 and bool_and(replay_lsn >= $1::text::pg_lsn) from pg_stat_replication"
)


def copy(
    primary: EmbeddedPostgres,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    binaries: Path | None = None,
) -> EmbeddedPostgres:
    """Copy a running Postgres into a folder, as its standby; the caller starts and stops it.

    The binaries are those of the primary, if they are not the embedded ones.
    """
    folder.mkdir(mode=0o700)
    program = get_binaries(binaries) / "pg_basebackup"
    log, lock = folder / "postgres.log", folder / "server.lock"
    # -R: what makes it a standby of the one that is copied.
    options = ["-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "--dbname", primary.url()]
    order = Order(
        [str(program), "--pgdata", str(folder / "cluster"), *options],
        identity.choose_identity(folder, program),
        str(folder),
        log=str(log),
        server_lock=str(lock),
    )
    exit_code = identity.run(order, COPY_SECONDS_MAX)
    assert exit_code == 0, log.read_text()
    return EmbeddedPostgres(folder, settings=settings, binaries=binaries)


async def wait_for_it(primary: EmbeddedPostgres) -> None:
    """Have no commit of the primary acknowledged before a standby has it, from now on."""
    connection = await connect(primary.url())
    try:
        await connection.execute("alter system set synchronous_standby_names = '*'")
        await connection.execute("select pg_reload_conf()")
        states = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        await eventually(lambda: connection.fetchval(states))
    finally:
        await connection.close()


async def catch_up(primary: EmbeddedPostgres) -> None:
    """Wait until the standby has applied what is there now."""
    connection = await connect(primary.url())
    try:
        now = await connection.fetchval("select pg_current_wal_lsn()::text")
        await eventually(lambda: connection.fetchval(ALL_APPLIED, now))
    finally:
        await connection.close()


def kill_whole(postgres: EmbeddedPostgres) -> float:
    """Kill every process of a Postgres, the way a power cut would; returns when."""
    children = psutil.Process(postgres.pid).children(recursive=True)
    kill_and_see_gone(postgres.pid, *(child.pid for child in children))
    return time.monotonic()


async def promote(standby: EmbeddedPostgres) -> None:
    """Make a standby the primary."""
    connection = await connect(standby.url())
    try:
        assert await connection.fetchval("select pg_promote(true, 60)")
    finally:
        await connection.close()


def url_of_both(one: EmbeddedPostgres, other: EmbeddedPostgres, name: str, more: str = "") -> str:
    """Name a database wherever its primary is, in one URL."""
    asked = [parse_qs(urlsplit(each.url()).query) for each in (one, other)]
    hosts, ports = (",".join(each[key][0] for each in asked) for key in ("host", "port"))
    return f"postgresql://postgres@/{name}?host={hosts}&port={ports}&sslmode=disable{more}"


@contextmanager
def frozen(postgres: EmbeddedPostgres) -> Iterator[None]:
    """Stop every process of a Postgres: its connections stay, and nothing answers."""
    first = psutil.Process(postgres.pid)
    processes = [first, *first.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()
