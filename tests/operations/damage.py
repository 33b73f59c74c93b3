"""Damage planted past the schema's guards, in a transaction that takes it back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg

from holdfast.embedded import EmbeddedPostgres
from holdfast.ledger.ledger import Ledger
from holdfast.operations.upkeep.audit import audit
from holdfast.store.database import Database, Transaction
from tests.clock import Clock
from tests.conftest import run_sql
from tests.databases import TEMPLATE

PAST_THE_GUARDS = "set local session_replication_role = replica; set local search_path = holdfast"


class Damage(NamedTuple):
    """What is planted, what must be reported of it, and what follows from the same damage."""

    invariant: str
    subject: str
    sql: str
    also: tuple[tuple[str, str], ...] = ()


class Rehearsal(Database):
    """A database as one transaction sees it that has planted damage, and will take it back."""

    def __init__(self, url: str, connection: Any) -> None:
        super().__init__(url)
        self._connection = connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        """Read what the planting transaction reads."""
        yield Transaction(self._connection)


@contextmanager
def a_scene(
    postgres: EmbeddedPostgres, play: Callable[[Ledger, Clock], Awaitable[None]]
) -> Iterator[str]:
    """Make a database in which a scene has been played, for the time of a block."""
    admin = postgres.url("postgres")
    name = f"scene_{uuid4().hex}"
    asyncio.run(run_sql(admin, f"create database {name} template {TEMPLATE}"))
    asyncio.run(_play(postgres.url(name), play))
    yield postgres.url(name)
    asyncio.run(run_sql(admin, f"drop database {name} with (force)"))


async def _play(url: str, play: Callable[[Ledger, Clock], Awaitable[None]]) -> None:
    async with Database(url) as database, Clock(url) as clock:
        await play(Ledger(database), clock)


async def find_planted(url: str, damage: Damage) -> set[tuple[str, str]]:
    """Plant damage, and say what an audit reports of it."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"begin; {PAST_THE_GUARDS}; {damage.sql}")
        return await reported(Rehearsal(url, connection))
    finally:
        await connection.close()


async def reported(database: Database) -> set[tuple[str, str]]:
    """Audit a database; each finding must have something to say."""
    findings = [finding async for finding in audit(database)]
    assert all(finding.detail for finding in findings)
    return {(finding.invariant, finding.subject) for finding in findings}
