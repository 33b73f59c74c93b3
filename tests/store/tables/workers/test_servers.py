"""Servers note themselves, again and again, and are forgotten when they end or fall silent."""

from datetime import timedelta
from uuid import uuid4

from holdfast.store.database import Database
from holdfast.store.tables.workers.servers import (
    ServerNote,
    forget_servers,
    list_servers,
    note_server,
)
from tests.clock import Clock

HOUR = timedelta(hours=1)


async def test_a_server_is_there_from_its_first_note_to_its_end(
    database: Database, clock: Clock
) -> None:
    async with database.transaction() as tx:
        at = await tx.now()
        note = ServerNote(uuid4(), "h", "1.0", 24, at + timedelta(seconds=40), '{"a": 1}')
        other = note._replace(server_id=uuid4())
        await note_server(tx, note)
        await note_server(tx, other)
    await clock.advance(3000)
    async with database.transaction() as tx:
        await note_server(tx, note._replace(report='{"a": 2}', clock=await tx.now()))
        found = {row.server_id: row for row in await list_servers(tx)}
    own, silent = found[note.server_id], found[other.server_id]
    assert (own.report, own.host, own.version, own.migration) == ('{"a": 2}', "h", "1.0", 24)
    assert 2999 < (own.seen_at - own.started_at).total_seconds() < 3060
    assert abs(own.clock_skew_seconds) < 5
    assert 35 < silent.clock_skew_seconds < 41
    await clock.advance(1000)
    async with database.transaction() as tx:
        await forget_servers(tx, None, silent_for=HOUR)
        assert [row.server_id for row in await list_servers(tx)] == [note.server_id]
        await forget_servers(tx, note.server_id, silent_for=HOUR)
        assert await list_servers(tx) == []
