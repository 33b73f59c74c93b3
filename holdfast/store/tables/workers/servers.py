"""The table of servers: who serves this database, by which version, and how it does."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from holdfast.store.database import Transaction
from holdfast.store.statements import load_statements

_SERVERS = load_statements("workers/servers")
SERVERS_MAX = 1000


class ServerNote(NamedTuple):
    """What a server says of itself; `report` is a JSON text, `clock` the time on its host."""

    server_id: UUID
    host: str
    version: str
    migration: int
    clock: datetime
    report: str


class ServerRow(NamedTuple):
    """A server as it was last heard of; `now` is the time of the database."""

    server_id: UUID
    host: str
    version: str
    migration: int
    started_at: datetime
    seen_at: datetime
    clock_skew_seconds: float
    report: str
    now: datetime


async def note_server(tx: Transaction, note: ServerNote) -> None:
    """Note that a server runs, and how it does."""
    await tx.fetch(_SERVERS["note_server"], **note._asdict())


async def forget_servers(tx: Transaction, server_id: UUID | None, *, silent_for: timedelta) -> None:
    """Forget a server that has ended, and those that were not heard of for a while."""
    await tx.fetch(_SERVERS["forget_servers"], server_id=server_id, silent_for=silent_for)


async def list_servers(tx: Transaction) -> list[ServerRow]:
    """List the servers, the oldest first."""
    rows = await tx.fetch(_SERVERS["list_servers"], count_max=SERVERS_MAX)
    return [ServerRow._make(row) for row in rows]
