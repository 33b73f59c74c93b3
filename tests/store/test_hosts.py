"""Several hosts in one URL: who is asked, and who is left out."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import Unavailable
from holdfast.store.database import NOT_PRIMARY, Database
from holdfast.store.hosts import Hosts
from holdfast.store.migrate import check_schema
from tests.standby import copy, url_of_both

RECOVERY = "select pg_is_in_recovery()"


@pytest.fixture(scope="module")
def standby(
    postgres: EmbeddedPostgres,
    postgres_binaries: Path | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[EmbeddedPostgres]:
    """A standby of the Postgres of these tests."""
    folder = tmp_path_factory.mktemp("standby") / "b"
    with copy(postgres, folder, {"fsync": "off"}, binaries=postgres_binaries) as standby:
        yield standby


async def is_standby(url: str, **how: float) -> bool:
    """Ask whom one gets."""
    connection = await Hosts(url, **how).connect()
    try:
        return bool(await connection.fetchval(RECOVERY))
    finally:
        await connection.close()


async def test_of_several_hosts_the_primary_is_found(
    postgres: EmbeddedPostgres, standby: EmbeddedPostgres
) -> None:
    assert not await is_standby(url_of_both(standby, postgres, "postgres"))
    assert not await is_standby(url_of_both(postgres, standby, "postgres"))


@pytest.mark.parametrize("wanted", ["standby", "prefer-standby", "read-only"])
async def test_a_url_may_ask_for_the_standby(
    postgres: EmbeddedPostgres, standby: EmbeddedPostgres, wanted: str
) -> None:
    more = f"&target_session_attrs={wanted}"
    assert await is_standby(url_of_both(postgres, standby, "postgres", more))


async def test_a_host_that_answers_nothing_does_not_use_up_the_time_of_the_next(
    postgres: EmbeddedPostgres,
) -> None:
    asked = parse_qs(urlsplit(postgres.url()).query)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},{quote(asked['host'][0], safe='')}:5432"
        url = f"postgresql://postgres@{hosts}/postgres?sslmode=disable"
        assert not await is_standby(url, seconds_max=0.2)


async def test_a_host_that_hangs_up_at_once_is_passed_over(postgres: EmbeddedPostgres) -> None:
    asked = parse_qs(urlsplit(postgres.url()).query)
    hang_up = asyncio.Event()

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hang_up.set()
        writer.close()

    # As a proxy in front of a Postgres that is gone does it.
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        hosts = f"127.0.0.1:{port},{quote(asked['host'][0], safe='')}:5432"
        url = f"postgresql://postgres@{hosts}/postgres?sslmode=disable"
        assert not await is_standby(url)
    assert hang_up.is_set()


async def test_where_no_primary_is_found_the_reason_says_so(standby: EmbeddedPostgres) -> None:
    url = url_of_both(standby, standby, "postgres")
    with pytest.raises(Unavailable) as caught:
        await Database(url).open()
    assert NOT_PRIMARY in str(caught.value)
    with pytest.raises(Unavailable):
        await check_schema(url)


async def test_a_write_to_a_standby_is_unavailable_and_its_connection_is_left(
    standby: EmbeddedPostgres,
) -> None:
    async with Database(standby.url("postgres"), connections_max=1) as database:
        pids: list[int] = []

        async def write() -> None:
            async with database.transaction() as tx:
                pids.append(await tx.connection.fetchval("select pg_backend_pid()"))
                await tx.connection.execute("create table refused ()")

        for _ in range(2):
            with pytest.raises(Unavailable, match="no primary is found there"):
                await write()
        assert pids[0] != pids[1]
