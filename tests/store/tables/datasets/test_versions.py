"""The tables of datasets and versions through their functions."""

from holdfast.store.database import Transaction
from holdfast.store.tables.datasets.versions import (
    Version,
    delete_versions_of_submission,
    drop_version,
    find_open_versions,
    hold_version,
    insert_dataset,
    let_version_be_replaced,
    lock_datasets,
    lock_version,
    mark_swept,
    open_version,
    record_cut_over,
    seal_version,
    set_current_version,
    take_dropped_version,
)


async def test_a_version_is_opened_sealed_and_dropped(tx: Transaction) -> None:
    assert await insert_dataset(tx, "d", actor="me", metadata="{}")
    assert not await insert_dataset(tx, "d", actor="me", metadata="{}")
    assert await lock_datasets(tx, ["d", "none"]) == {"d": None}
    first, second = [Version("d", await open_version(tx, "d", actor="me")) for _ in range(2)]
    assert (first.number, second.number) == (1, 2)
    assert await find_open_versions(tx, ["d", "none"]) == {"d": 2}
    await let_version_be_replaced(tx, first)
    now = await tx.now()
    await seal_version(tx, first, now=now, entries=0, size=0)
    await set_current_version(tx, first)
    await record_cut_over(tx, first, previous=None, now=now, actor="me", reason=None, forced=False)
    assert await lock_datasets(tx, ["d"]) == {"d": 1}
    assert await lock_version(tx, first) == "sealed"
    assert await hold_version(tx, second) == "open"
    assert await hold_version(tx, Version("d", 9)) is None
    await drop_version(tx, second, actor="me")
    assert await take_dropped_version(tx) == second
    await mark_swept(tx, second)
    assert await take_dropped_version(tx) is None


async def test_a_version_goes_with_the_job_it_was_opened_for(tx: Transaction) -> None:
    await insert_dataset(tx, "d", actor="me", metadata="{}")
    number = await open_version(tx, "d", actor="me", opened_by_job=7)
    await delete_versions_of_submission(tx, [8])
    assert await hold_version(tx, Version("d", number)) == "open"
    await delete_versions_of_submission(tx, [7])
    assert await hold_version(tx, Version("d", number)) is None
