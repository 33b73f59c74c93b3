"""The table of paused queues through its functions."""

from holdfast.store.database import Transaction
from holdfast.store.tables.limits.queues import pause_queue, resume_queue
from holdfast.store.tables.work.ready import list_queues_with_work
from tests.world import World


async def test_a_paused_queue_has_no_work_until_it_is_resumed(
    world: World, tx: Transaction
) -> None:
    await world.submit()
    await pause_queue(tx, "q", actor="operator")
    await pause_queue(tx, "q", actor="another")
    assert await list_queues_with_work(tx, ["q"]) == []
    await resume_queue(tx, "q")
    assert await list_queues_with_work(tx, ["q"]) == ["q"]
