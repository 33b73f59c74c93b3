"""A checkup by a server of its own database; the set-ups that are broken: `doctor`'s own tests."""

from uuid import uuid4

from holdfast.operations.register import Registration, register
from holdfast.rules.checkup.findings import Finding
from holdfast.services.checkup import examine, examine_database, read_report
from holdfast.services.presence import Presence
from holdfast.store.database import Database
from holdfast.store.tables.workers.servers import ServerNote, list_servers, note_server
from holdfast.wire.checkup import ServerReport
from tests.clock import Clock
from tests.conftest import run_sql
from tests.world import World


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {each.check: each for each in findings}


async def test_workers_and_servers_are_judged_by_what_they_have_told(
    world: World, clock: Clock, database_url: str
) -> None:
    database = world.ledger.database
    async with database.transaction() as tx:
        now = await tx.now()
    late = now.replace(year=now.year + 1)
    registration = Registration("w1", "slow", "h", ("q",), version="0.0.1", clock=late)
    await register(world.ledger, registration)
    presence = Presence(database, is_heard=False)
    presence.certificate = lambda: now
    await presence.note()
    found = by_check(await examine(database, database_url))
    assert found["clock of worker slow"].severity == "error"
    assert "0.0.1: worker slow" in found["versions"].found
    assert found["wake-ups"].severity == "warning"
    certificate = next(each for check, each in found.items() if check.startswith("certificate"))
    assert certificate.severity != "ok"
    await clock.advance(600)
    found = by_check(await examine(database, database_url))
    assert found["servers"].severity == "error"
    assert "has not been heard of" in found["worker slow"].found


async def test_a_look_that_fails_keeps_no_other_from_being_taken(
    database: Database, database_url: str
) -> None:
    await run_sql(database_url, "alter table holdfast.outbox rename to outbox_of_somebody")
    found = by_check(await examine(database, database_url))
    assert "could not be looked at" in found["chores"].found
    assert found["partitions"].severity == "ok"


async def test_a_replica_that_is_none_or_cannot_be_reached(database_url: str) -> None:
    for replica, severity in ((database_url, "ok"), ("postgresql://127.0.0.1:1/x", "error")):
        found = await examine_database(
            database_url, program="t", is_heard=True, replica_url=replica
        )
        assert by_check(found)["read replica"].severity == severity


async def test_servers_of_one_version_that_know_different_migrations_are_told_apart(
    database: Database, database_url: str
) -> None:
    async with database.transaction() as tx:
        now = await tx.now()
        for host, migration in (("new", 35), ("old", 34)):
            await note_server(tx, ServerNote(uuid4(), host, "1.0", migration, now, "{}"))
    found = by_check(await examine(database, database_url))["versions"]
    assert found.severity == "warning"
    assert found.found == "2 at once: 1.0: server new; 1.0, of migration 34: server old"


async def test_a_report_that_cannot_be_read_says_nothing(database: Database) -> None:
    async with database.transaction() as tx:
        note = ServerNote(uuid4(), "h", "1", 1, await tx.now(), '{"chores": 3}')
        await note_server(tx, note)
        [row] = await list_servers(tx)
    assert read_report(row) == ServerReport()
