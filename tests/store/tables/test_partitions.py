"""Partitions through their functions."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.tables.partitions import (
    Partition,
    add_partition,
    delete_rows_of_partition,
    drop_partition,
    find_prunable_partition,
    lock_partitions,
    read_job_id_pace,
    read_partitions,
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
    await delete_rows_of_partition(tx, added)
    assert (await read_partitions(tx))[-1] == last


async def test_the_newest_events_are_summarised(tx: Transaction) -> None:
    assert await summarise_events(tx) >= 0
