"""The table of dependencies through its functions."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.states import JobState
from holdfast.store.database import Transaction
from holdfast.store.tables.order.dependencies import (
    ClosedDependencies,
    NewDependency,
    ReleasedJob,
    UnmeetableDependency,
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
            ClosedDependencies(second, closed=1, met=1, unmeetable=None)
        ]
        assert await lock_dependents(tx, [second]) == {second}
        released = ReleasedJob(second, num_tasks=1, has_time=False)
        assert await count_met(tx, {second: 1}) == [released]


async def test_of_dependencies_that_can_never_be_met_the_first_is_named(
    ledger: Ledger, world: World
) -> None:
    parents = [await world.submit(queue="first") for _ in range(3)]
    first, second, third = map(str, parents)
    wanted = [first, {"job": third, "condition": "failed"}, {"job": second, "condition": "failed"}]
    waiting = await world.submit(depends_on=wanted)
    for mine in await world.claim(3, queue="first"):
        await world.start(mine)
        await world.succeed(mine)
    async with ledger.database.transaction() as tx:
        unmeetable = UnmeetableDependency(parents[1], "failed", JobState.SUCCEEDED)
        assert await close_dependencies(tx, parents, batch_max=9) == [
            ClosedDependencies(waiting, closed=3, met=1, unmeetable=unmeetable)
        ]
        assert await lock_dependents(tx, [waiting]) == {waiting}
        assert await count_met(tx, {waiting: 1}) == []


async def test_what_a_new_job_waits_for_is_stored(world: World, tx: Transaction) -> None:
    first, second = await world.submit(), await world.submit()
    await insert_dependencies(tx, [NewDependency(second, first, "ended", None)])
    assert await find_unmet_dependencies(tx, [second]) == [(second, first)]
