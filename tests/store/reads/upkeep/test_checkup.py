"""What a checkup reads, on a real Postgres: numbers that move when the thing itself does."""

from datetime import timedelta

from holdfast.store.database import Database
from holdfast.store.reads.upkeep import checkup
from tests.clock import Clock
from tests.conftest import run_sql
from tests.world import World


async def test_settings_that_are_there_are_read(database: Database) -> None:
    found = await checkup.read_settings(database, ["fsync", "max_connections", "no_such_setting"])
    assert found.keys() == {"fsync", "max_connections"}
    assert found["fsync"] == "off"  # of these tests, that is


async def test_clocks_connections_and_the_role(database: Database, clock: Clock) -> None:
    await clock.advance(1000)
    server = await checkup.read_server_clock(database)
    assert not server.is_standby
    assert await checkup.read_ledger_clock(database) - server.now > timedelta(seconds=990)
    assert await checkup.count_connections(database) >= 2
    assert await checkup.read_role(database) == "postgres"
    assert await checkup.list_missing_rights(database) == []
    assert await checkup.read_transaction_id_age(database) > 0
    assert await checkup.list_standbys(database) == []


async def test_tables_are_counted_with_their_partitions_under_one_name(
    database: Database, database_url: str
) -> None:
    names = [each.name for each in await checkup.list_table_rows(database)]
    assert len(names) == len(set(names))
    assert {"tasks", "events", "ready", "servers"} <= set(names)
    assert "tasks_1" not in names
    assert await checkup.list_unvacuumed(database) == []
    await run_sql(database_url, "alter table holdfast.tasks_1 set (autovacuum_enabled = off)")
    assert await checkup.list_unvacuumed(database) == ["tasks_1"]


async def test_what_is_due_is_told_by_its_age(world: World, clock: Clock) -> None:
    database = world.ledger.database
    assert await checkup.read_backlog(database) == (None,) * 5
    last_job_id, end_job_id = await checkup.read_ranges(database)
    assert last_job_id < end_job_id
    await world.submit()
    await world.claim()
    first = (await checkup.read_backlog(database)).leases
    assert first is not None
    assert first < 0
    await clock.advance(5000)
    later = (await checkup.read_backlog(database)).leases
    assert later is not None
    assert 4990 < later - first < 5060
    await world.submit(expires=10.0)
    await clock.advance(40)
    expired = (await checkup.read_backlog(database)).expiries
    assert expired is not None
    assert 29 < expired < 90
    async with database.transaction() as tx:
        assert await checkup.read_leader(tx) == {}
