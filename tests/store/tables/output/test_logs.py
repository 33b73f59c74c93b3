"""The table of logs through its functions."""

from uuid import uuid4

from holdfast.store.database import Transaction
from holdfast.store.tables.output.logs import (
    LongLog,
    StoredStretch,
    Stretch,
    append_logs,
    has_later_output,
    read_log,
    trim_logs,
)
from tests.world import World, fence_of


async def test_output_is_stored_for_whoever_holds_the_lease(world: World, tx: Transaction) -> None:
    await world.submit()
    [mine] = await world.claim()
    fence = fence_of(mine)
    stretches = [
        (fence, 0, b"one "),
        (fence, 4, b"two"),
        (fence._replace(lease_token=uuid4()), 7, b"stranger"),
    ]
    assert await append_logs(tx, stretches) == {
        StoredStretch(*mine.task_id, 0, 0),
        StoredStretch(*mine.task_id, 0, 4),
    }
    [stored] = await read_log(tx, mine.task_id, 0, start_offset=5, bytes_max=9, count_max=9)
    assert stored == Stretch(4, b"two", stored.stored_at)
    assert stored.stored_at <= await tx.now()


async def test_as_many_stretches_are_read_as_hold_the_bytes_wanted(
    world: World, tx: Transaction
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await append_logs(tx, [(fence_of(mine), at, b"0123456789") for at in (0, 10, 20, 40, 50)])

    async def read(start_offset: int, bytes_max: int, count_max: int = 9) -> list[int]:
        stretches = await read_log(
            tx,
            mine.task_id,
            0,
            start_offset=start_offset,
            bytes_max=bytes_max,
            count_max=count_max,
        )
        return [stretch.start_offset for stretch in stretches]

    assert await read(0, 1) == [0]
    assert await read(0, 10) == [0]
    assert await read(0, 11) == [0, 10]
    assert await read(5, 6) == [0, 10]
    assert await read(30, 1) == [20, 40]  # what has none of them does not count
    assert await read(0, 999, count_max=2) == [0, 10]
    assert await read(99, 1) == [50]
    assert await has_later_output(tx, mine.task_id, 0, start_offset=40)
    assert not await has_later_output(tx, mine.task_id, 0, start_offset=50)


async def test_the_middle_of_a_log_is_deleted_and_that_of_no_other(
    world: World, tx: Transaction
) -> None:
    await world.submit([0, 1])
    mine, other = await world.claim(2)
    for claim in (mine, other):
        await append_logs(tx, [(fence_of(claim), at, b"0123456789") for at in (0, 10, 20, 30)])
    await trim_logs(tx, [LongLog(mine.task_id, 0, 30)], head_bytes=10)
    for claim, left in ((mine, [0, 30]), (other, [0, 10, 20, 30])):
        stretches = await read_log(tx, claim.task_id, 0, start_offset=0, bytes_max=999, count_max=9)
        assert [stretch.start_offset for stretch in stretches] == left
