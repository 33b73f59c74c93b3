"""The table of dependencies through its functions."""

from holdfast.ledger.ledger import Ledger
from holdfast.store.database import Transaction
from holdfast.store.tables.dependencies import (
    ClosedDependency,
    LockedDependent,
    NewDependency,
    close_dependencies,
    count_met,
    find_unmet_dependencies,
    insert_dependencies,
    lock_dependents,
    walk_open_dependencies,
)
from tests.world import World


async def test_a_dependency_is_closed_when_the_other_job_has_ended(
    ledger: Ledger, world: World
) -> None:
    first = await world.submit(queue="first")
    second = await world.submit(depends_on=[str(first)])
    [mine] = await world.claim(queue="first")
    await world.start(mine)
    async with ledger.database.transaction() as tx:
        assert await find_unmet_dependencies(tx, [second, first]) == [(second, first)]
        assert await walk_open_dependencies(tx, after=0, batch_max=9) == [(first, False)]
        assert await close_dependencies(tx, [first], batch_max=9) == []
    await world.succeed(mine)
    async with ledger.database.transaction() as tx:
        assert await close_dependencies(tx, [first], batch_max=9) == [
            ClosedDependency(second, first, "succeeded", 4, holds=True)
        ]
        locked = LockedDependent(second, is_live=True, num_tasks=1, has_time=False)
        assert await lock_dependents(tx, [second]) == {second: locked}
        assert await count_met(tx, [(second, 1)]) == [(second, True)]


async def test_what_a_new_job_waits_for_is_stored(world: World, tx: Transaction) -> None:
    first, second = await world.submit(), await world.submit()
    await insert_dependencies(tx, [NewDependency(second, first, "ended", None)])
    assert await find_unmet_dependencies(tx, [second]) == [(second, first)]
