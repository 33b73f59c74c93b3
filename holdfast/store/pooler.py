"""How a pooler shares connections, told from what it does: nothing in its protocol says so."""

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Any

import asyncpg

from holdfast.rules.checkup.postgres import PoolMode
from holdfast.store.database import connecting, find_pooler, session_settings
from holdfast.store.hosts import Hosts

PATIENCE_SECONDS = 3.0
# Others who look in step with us may take what we would have shared, but not again and again.
ROUNDS = 20
PAUSE_SECONDS_MAX = 0.01
PROGRAM = "holdfast doctor"


async def find_pool_mode(url: str) -> PoolMode:
    """Find out how a pooler shares connections; "none" if Postgres itself answers."""
    settings = session_settings(url, PROGRAM)
    hosts = Hosts(url, seconds_max=PATIENCE_SECONDS)
    async with connecting(url), AsyncExitStack() as open_ones:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                if not await find_pooler(hosts, settings):
                    return "none"
        except asyncpg.PostgresError as error:
            if "statement pooling" not in str(error):
                raise
            return "statement"

        async def connect() -> Any:
            async with asyncio.timeout(PATIENCE_SECONDS):
                connection = await hosts.connect(server_settings=settings, statement_cache_size=0)
            open_ones.callback(connection.terminate)
            return connection

        try:
            first = await connect()
            own = await _ask(first)
            return await _compare(first, await connect(), own)
        except TimeoutError:  # the first one is idle, and its connection is not shared
            return "exhausted"


async def _compare(first: Any, second: Any, own: int) -> PoolMode:
    """Ask two sessions in turn for the process that serves them: shared, it is seen by both.

    While one of them is in a transaction, the other one, if it shares, is served by another.
    """
    for number in range(ROUNDS):
        await asyncio.sleep(random.uniform(0.0, PAUSE_SECONDS_MAX) if number else 0.0)
        try:
            await second.execute("begin", timeout=PATIENCE_SECONDS)
        except asyncpg.PostgresError:
            return "statement"
        other = await _ask(second)
        if other == own:
            await second.execute("rollback", timeout=PATIENCE_SECONDS)
            return "transaction"
        await second.execute("rollback", timeout=PATIENCE_SECONDS)
        if await _ask(first) != own:
            return "transaction"
    return "session"


async def _ask(connection: Any) -> int:
    serving: int = await connection.fetchval("select pg_backend_pid()", timeout=PATIENCE_SECONDS)
    return serving
