"""Jobs whose tasks end if nobody has started them by a time."""

from holdfast.model.work.ids import TaskId
from holdfast.store.database import Database
from holdfast.store.tables.submitting.expiries import (
    advance_expiries,
    delete_expiries,
    list_unstarted,
)
from tests.world import World


async def test_the_next_tasks_are_listed_from_where_it_was_left(
    database: Database, world: World
) -> None:
    job_id = await world.submit([1, 2, 3], expires=60.0)
    other = await world.submit(expires=90.0)
    await world.submit(expires=200.0)
    await world.submit()
    async with database.transaction() as tx:
        assert await list_unstarted(tx, except_jobs=[], batch_max=9) == []
    await world.clock.advance(100)
    async with database.transaction() as tx:
        await advance_expiries(tx, {job_id: 2})
        await advance_expiries(tx, {job_id: 1})
        found = await list_unstarted(tx, except_jobs=[], batch_max=9)
        assert found == [TaskId(job_id, 2), TaskId(other, 0)]
        assert await list_unstarted(tx, except_jobs=[job_id], batch_max=9) == [TaskId(other, 0)]
        assert await delete_expiries(tx, batch_max=9) == 0
        await advance_expiries(tx, {job_id: 3})
        assert await delete_expiries(tx, batch_max=9) == 1
