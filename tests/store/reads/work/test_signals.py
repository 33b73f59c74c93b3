"""What people read of tasks that wait for signals."""

from datetime import timedelta

from holdfast.model.work.ids import TaskId
from holdfast.operations.signals import send_signal, wait_for_signal
from holdfast.store.database import Database
from holdfast.store.reads.work.signals import KeptRow, list_kept, list_parked
from tests.world import World, fence_of


async def test_what_waits_and_what_is_kept_can_be_read(world: World, database: Database) -> None:
    job_id = await world.submit(inputs=[1, 2, 3])
    claims = await world.claim(3)
    for claim, timeout in zip(claims[:2], (None, 60.0), strict=True):
        fence = fence_of(claim)
        await wait_for_signal(world.ledger, fence, name="approval", number=1, timeout=timeout)
        await world.complete(claim, "waiting")
    for name in ("b", "a", "b"):
        await send_signal(world.ledger, job_id, 1, name=name, payload="1", actor="boss")
    async with database.transaction() as tx:
        parked = await list_parked(tx, job_id, [0, 1, 2])
        kept = await list_kept(tx, TaskId(job_id, 1))
        assert await list_kept(tx, TaskId(job_id, 0)) == []
    assert list(parked) == [0, 1]
    assert (parked[0].name, parked[0].until) == ("approval", None)
    assert parked[1].until == parked[1].since + timedelta(seconds=60)
    assert [(row.name, row.number) for row in kept] == [("a", 1), ("b", 2)]
    assert all(isinstance(row, KeptRow) for row in kept)
