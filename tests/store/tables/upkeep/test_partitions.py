"""Partitions through their functions."""

from datetime import timedelta

import asyncpg
import pytest

from holdfast.store.database import Transaction
from holdfast.store.tables.upkeep.partitions import (
    Partition,
    add_partition,
    delete_jobs,
    delete_ready_of_partition,
    delete_rows_of_jobs,
    drop_partition,
    find_prunable_partition,
    has_jobs_of_partition,
    list_jobs_in_use,
    list_retired_partitions,
    lock_jobs_of_partition,
    lock_partitions,
    lock_retired_partition,
    read_job_id_pace,
    read_partitions,
    retire_partition,
    shorten_lock_timeout,
    summarise_events,
)
from tests.world import World


async def test_a_partition_is_added_at_the_end_and_dropped(world: World, tx: Transaction) -> None:
    await world.submit()
    await shorten_lock_timeout(tx, 100)
    await lock_partitions(tx)
    *_, last = await read_partitions(tx)
    added = Partition(last.end_job_id, last.end_job_id + 1000)
    await add_partition(tx, added)
    assert (await read_partitions(tx))[-1] == added
    pace = await read_job_id_pace(tx, 1000)
    assert pace.jobs_last_day == 1
    assert await find_prunable_partition(tx, older_than=timedelta()) is None
    await drop_partition(tx, added)
    assert (await read_partitions(tx))[-1] == last


async def test_a_retired_partition_may_lose_its_jobs_before_its_tasks(
    world: World, tx: Transaction
) -> None:
    done, used = await world.submit(), await world.submit(queue="used")
    for queue in ("q", "used"):
        await world.succeed((await world.claim(queue=queue))[0])
    await world.submit(depends_on=[str(used)], queue="waits")
    [first, *_] = await read_partitions(tx)
    assert not await lock_retired_partition(tx, first)
    await tx.connection.execute("savepoint before")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="still has tasks"):
        await delete_jobs(tx, [done])
    await tx.connection.execute("rollback to savepoint before")
    await retire_partition(tx, first)
    assert await list_retired_partitions(tx) == [first]
    assert await lock_retired_partition(tx, first)
    assert await lock_jobs_of_partition(tx, first, batch_max=2) == [done, used]
    assert await list_jobs_in_use(tx, [done, used]) == {used}
    assert await delete_rows_of_jobs(tx, [done], rows_max=10, large_rows_max=10)
    await delete_jobs(tx, [done])
    assert await delete_ready_of_partition(tx, first, rows_max=10)
    assert not await delete_ready_of_partition(tx, first, rows_max=0)
    assert await has_jobs_of_partition(tx, first)


async def test_the_newest_events_are_summarised(tx: Transaction) -> None:
    assert await summarise_events(tx) >= 0
