"""The table of chains: locked by name, and forgotten with its last jobs."""

from holdfast.model.submitting.spec import ChainKey
from holdfast.store.tables.order.chains import (
    allocate_more_ids,
    find_ends,
    forget_chains,
    forget_last_job,
    lock_chains,
    set_last_jobs,
)
from tests.world import World

ONE, OTHER = ChainKey("me", "a"), ChainKey("you", "a")


async def test_a_chain_is_made_once_and_remembers_its_last_job(world: World) -> None:
    async with world.ledger.database.transaction() as tx:
        assert await lock_chains(tx, [OTHER, ONE, ONE]) == {ONE: None, OTHER: None}
        await set_last_jobs(tx, {ONE: 7, OTHER: 9})
        assert await lock_chains(tx, [ONE, OTHER]) == {ONE: 7, OTHER: 9}


async def test_chains_are_forgotten_by_their_last_jobs(world: World) -> None:
    async with world.ledger.database.transaction() as tx:
        await lock_chains(tx, [ONE, OTHER])
        await set_last_jobs(tx, {ONE: 7, OTHER: 9})
        assert not await forget_last_job(tx, 8)
        assert await forget_last_job(tx, 7)
        await forget_chains(tx, 1, 9)
        assert await lock_chains(tx, [OTHER]) == {OTHER: 9}
        await forget_chains(tx, 9, 10)
        assert await lock_chains(tx, [OTHER]) == {OTHER: None}


async def test_a_chain_is_kept_while_one_before_its_last_job_lives(world: World) -> None:
    first, second, third = [await world.submit(chain="a", owner="me") for _ in range(3)]
    for job_id in (second, third):
        await world.cancel_job(job_id)
    await world.run_chores()
    async with world.ledger.database.transaction() as tx:
        await forget_chains(tx, second, third + 1)
        assert await lock_chains(tx, [ONE]) == {ONE: first}
        await set_last_jobs(tx, {ONE: third})
        assert await forget_last_job(tx, third)
        assert await lock_chains(tx, [ONE]) == {ONE: first}


async def test_the_end_of_a_chain_is_told_with_the_latest_that_lives(world: World) -> None:
    first, second, third = [await world.submit(chain="a") for _ in range(3)]
    await world.cancel_job(second)
    await world.cancel_job(third)
    await world.run_chores()
    async with world.ledger.database.transaction() as tx:
        ends = await find_ends(tx, [first, third])
    assert ends == {
        first: (first, first, False, None),
        third: (third, first, False, None),
    }


async def test_ids_only_grow_and_a_live_job_stops_nobody(world: World) -> None:
    job_id = await world.submit()
    async with world.ledger.database.transaction() as tx:
        ids = await allocate_more_ids(tx, 3)
        assert job_id < ids[0] < ids[1] < ids[2]
        [end] = (await find_ends(tx, [job_id, 999_999])).values()
    assert end == (job_id, job_id, False, None)


async def test_a_chain_that_nobody_has_joined_is_forgotten_in_time(world: World) -> None:
    async with world.ledger.database.transaction() as tx:
        await lock_chains(tx, [ONE])
        await forget_chains(tx, 1, 9)
    assert await world.count("chains") == 1
    await world.clock.advance(2 * 86_400)
    async with world.ledger.database.transaction() as tx:
        await forget_chains(tx, 1, 9)
    assert await world.count("chains") == 0
