"""The table of what people have done, through its functions."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.reads.actions import ActionFilter, list_actions
from holdfast.store.tables.access.actions import NewAction, prune_actions, record_actions
from tests.world import World


async def test_the_oldest_go_and_the_others_stay(world: World, tx: Transaction) -> None:
    for number in range(3):
        await record_actions(tx, [NewAction("ann", "cancel", "job", str(number))])
        await world.clock.advance(100)
    assert await prune_actions(tx, older_than=timedelta(seconds=150), batch_max=1) == 1
    assert await prune_actions(tx, older_than=timedelta(seconds=150), batch_max=10) == 1
    assert await prune_actions(tx, older_than=timedelta(seconds=150), batch_max=10) == 0
    assert [row.subject for row in await list_actions(tx, ActionFilter(), count_max=9)] == ["2"]
