"""Placed work in line through its functions."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.states import TaskState
from holdfast.store.tables.placed.ready import (
    WantedOfJob,
    drop_ready_of_ended_jobs,
    drop_stale_ready,
    has_placed_ready,
    list_demands,
    list_demands_of_job,
    take_ready_of_jobs,
)
from tests.placed_world import PlacedWorld


async def test_what_waits_to_be_placed_is_counted_and_taken(
    ledger: Ledger, cluster: PlacedWorld
) -> None:
    async with ledger.database.transaction() as tx:
        assert not await has_placed_ready(tx)
    job_id = await cluster.submit([1, 2, 3], priority=2)
    async with ledger.database.transaction() as tx:
        assert await has_placed_ready(tx)
        [line] = await list_demands(tx, tasks_max=2, gang_max=9)
        assert line[:4] == (job_id, 2, None, 2)
        assert (line.unfinished, line.is_live) == (3, True)
        assert await list_demands_of_job(tx, job_id, tasks_max=2, gang_max=9) == [line]
        first, second = await take_ready_of_jobs(tx, [WantedOfJob(job_id, None, 2)])
        assert (first.task_index, second.task_index) == (0, 1)
        assert (first.state, first.job_is_live) == (TaskState.PENDING, True)


async def test_the_line_is_cleared_of_what_was_cancelled(
    ledger: Ledger, cluster: PlacedWorld
) -> None:
    job_id = await cluster.submit([1, 2])
    async with ledger.database.transaction() as holder:
        await holder.connection.execute("select from holdfast.ready for update")
        await cluster.cancel_job(job_id)
    async with ledger.database.transaction() as tx:
        await drop_stale_ready(tx, [job_id], 1)
    assert await cluster.count("ready") == 1
    async with ledger.database.transaction() as tx:
        await drop_ready_of_ended_jobs(tx, [job_id], 9)
    assert await cluster.count("ready") == 0
