"""A server says that it runs, how its chores do, and how full its folders are."""

from datetime import UTC, datetime
from pathlib import Path

from holdfast.services.chores import Chore, take_turn
from holdfast.services.objects import ObjectStore
from holdfast.services.presence import Presence, measure_folder
from holdfast.store.database import Database
from holdfast.store.tables.workers.servers import list_servers


async def succeed() -> int:
    return 0


async def fail() -> int:
    raise ValueError("no right to delete " + "x" * 1000)


async def test_a_note_is_there_until_the_server_leaves(database: Database) -> None:
    presence = Presence(database)
    await presence.note()
    await presence.note()
    async with database.transaction() as tx:
        [row] = await list_servers(tx)
    assert row.server_id == presence.server_id
    await presence.leave()
    async with database.transaction() as tx:
        assert await list_servers(tx) == []


async def test_a_chore_that_fails_is_told_with_its_error_until_it_succeeds(
    database: Database,
) -> None:
    presence = Presence(database)
    well, ill = Chore("reap", 3600, succeed), Chore("prune", 0.0, fail)
    presence.watch([well, ill])
    for chore in (well, ill):
        await take_turn(chore)
    first, second = presence.report().chores
    assert (first.name, first.late_seconds, first.error) == ("reap", 0.0, None)
    assert (second.error or "").startswith("no right to delete")
    assert len(second.error or "") <= 300
    assert second.late_seconds > 0
    ill.turns.end()
    assert presence.report().chores[1].error is None


async def test_folders_and_the_certificate_are_told(database: Database, tmp_path: Path) -> None:
    presence = Presence(database, ObjectStore(str(tmp_path / "not" / "there" / "yet")))
    presence.certificate = lambda: datetime(2026, 1, 1, tzinfo=UTC)
    report = presence.report()
    assert report.certificate_expires_at_ms == 1_767_225_600_000
    [folder] = report.folders
    assert folder.folder == str(tmp_path / "not" / "there" / "yet")
    assert 0 < folder.free_bytes <= folder.total_bytes
    assert Presence(database, ObjectStore("s3://bucket/x")).report().folders == []
    assert measure_folder("x", Path("relative")) is not None
