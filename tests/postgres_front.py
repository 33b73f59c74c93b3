"""TLS in front of a Postgres whose binaries have none: as a program, on another host's address.

python -m tests.postgres_front HOST PORT SOCKET CERT KEY
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from holdfast.tls.contexts import Identity, build_server_context

# Eight bytes: their number, and the number that asks for TLS instead of a version.
ASKS_FOR_TLS = (8).to_bytes(4) + (80877103).to_bytes(4)
PIECE = 1 << 16


@asynccontextmanager
async def tls_front(
    url: str, identity: Identity, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """Pass what arrives by TLS on to a Postgres, for the time of a block; yields the port."""
    context = build_server_context(identity)
    pairs: set[asyncio.Task[None]] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        pairs.add(task)
        try:
            with suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
                assert await reader.readexactly(8) == ASKS_FOR_TLS, "TLS was not asked for"
                writer.write(b"S")
                await writer.start_tls(context)
                await _join(reader, writer, url)
        finally:
            writer.close()
            pairs.discard(task)

    server = await asyncio.start_server(meet, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        ending = list(pairs)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str) -> None:
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("host", [""])[0]
    if folder:
        port = parse_qs(parts.query).get("port", ["5432"])[0]
        inner, outer = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{port}")
    else:
        inner, outer = await asyncio.open_connection(parts.hostname, parts.port)
    ways = [asyncio.create_task(_pass_on(*way)) for way in ((reader, outer), (inner, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        outer.close()
        for way in ways:
            way.cancel()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()


async def _serve(host: str, port: int, url: str, identity: Identity) -> None:
    async with tls_front(url, identity, host, port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    host, port, url, cert, key = sys.argv[1:]
    asyncio.run(_serve(host, int(port), url, Identity(Path(cert), Path(key))))
