"""The tables of entries and commits through their functions."""

from holdfast.rules.commits import EntryKey, NewEntry, Standing
from holdfast.store.database import Transaction
from holdfast.store.tables.datasets.entries import (
    Writer,
    copy_entries,
    count_entries,
    delete_dropped_entries,
    delete_partitions,
    find_entries,
    insert_commits,
    insert_entries,
)
from holdfast.store.tables.datasets.versions import (
    Version,
    drop_version,
    insert_dataset,
    let_version_be_replaced,
    open_version,
)
from holdfast.store.tables.work.attempts import Success, succeed_attempts
from tests.world import World, fence_of


def an_entry(key: str, partition: str = "p") -> NewEntry:
    return NewEntry(0, EntryKey("d", 1, key), partition, f"s3://{key}", 5, "sum", None, "append")


async def test_entries_are_committed_copied_and_deleted(world: World, tx: Transaction) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    await succeed_attempts(tx, [Success(fence_of(mine), None)])
    await insert_dataset(tx, "d", actor="me", metadata="{}")
    version = Version("d", await open_version(tx, "d", actor="me"))
    writer = Writer(mine.task_id, mine.attempt)
    await insert_commits(tx, [(writer, 2)])
    assert await insert_entries(tx, [(writer, an_entry("a")), (writer, an_entry("b"))]) == 2
    assert await insert_entries(tx, [(writer, an_entry("b"))]) == 0
    assert await count_entries(tx, version, count_max=9) == (2, 10)
    found = await find_entries(tx, [EntryKey("d", 1, "a"), EntryKey("d", 1, "z")])
    assert found == {EntryKey("d", 1, "a"): Standing("p", "s3://a", "sum")}
    copy = Version("d", await open_version(tx, "d", actor="me", based_on=1))
    await copy_entries(tx, copy, based_on=1)
    assert await count_entries(tx, copy, count_max=1) == (1, 5)
    await let_version_be_replaced(tx, version)
    await delete_partitions(tx, [("d", 1, "p")])
    assert await count_entries(tx, version, count_max=9) == (0, 0)
    await drop_version(tx, copy, actor="me")
    assert await delete_dropped_entries(tx, copy, batch_max=1) == 1
