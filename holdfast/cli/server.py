"""`holdfast server`: the API and the chores on one Postgres."""

import logging
import sys
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.target import DatabaseUrl, open_target


def run_server(
    *,
    database_url: DatabaseUrl = None,
    host: Annotated[str, Parameter(help="A loopback address.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="0 lets the system choose.")] = 7878,
    migrate: Annotated[bool, Parameter(negative="", help="Bring the schema up first.")] = False,
) -> int:
    """Serve the API and do the chores until told to stop."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s"
    )
    import uvloop

    with open_target(database_url) as url:
        return uvloop.run(_serve(url, host, port, migrate=migrate))


async def _serve(url: str, host: str, port: int, *, migrate: bool) -> int:
    from holdfast.server import Address, run_until_signalled, serve
    from holdfast.services.runtime import Options
    from holdfast.store.migrate import check_schema
    from holdfast.store.migrate import migrate as bring_up

    if migrate:
        await bring_up(url)
    else:
        await check_schema(url)
    async with serve(Options(url), Address(host, port)) as server:
        sys.stdout.write(f"holdfast: serving at {server.url}\n")
        sys.stdout.flush()
        await run_until_signalled()
    return 0
