"""The reaper's row through its functions."""

from datetime import timedelta

from holdfast.rules.outage import Watch
from holdfast.store.database import Database, Transaction
from holdfast.store.tables.upkeep.reaper import lock_reaper, read_reaper, record_reaper_pass


async def test_a_pass_is_noted_and_read_while_nobody_else_is_at_it(
    database: Database, tx: Transaction
) -> None:
    found = await lock_reaper(tx)
    assert found is not None
    noted = Watch(found.now, found.now - timedelta(minutes=1), found.now)
    await record_reaper_pass(tx, noted)
    assert (await read_reaper(tx)).watch == noted
    async with database.transaction() as other:
        assert await lock_reaper(other) is None
        assert (await read_reaper(other)).watch == found.watch
