"""What owners have in the ledger."""

from holdfast.store.database import Database
from holdfast.store.reads.limits.owners import count_bytes, count_live_tasks, list_ranges
from tests.world import World


async def test_tasks_that_have_not_ended_are_counted_by_owner(
    world: World, database: Database
) -> None:
    await world.submit(owner="ann", replicas=3)
    ended = await world.submit(owner="bob")
    await world.submit(owner="bob", replicas=2)
    await world.cancel_job(ended)
    assert await count_live_tasks(database) == {"ann": 3, "bob": 2}


async def test_what_is_kept_is_counted_by_owner_and_range(world: World, database: Database) -> None:
    job = await world.submit(owner="ann", inputs=["x" * 500])
    await world.submit(owner="bob", inputs=["y"])
    [jobs] = [each for each in await list_ranges(database) if each.first_job_id <= job]
    before = await count_bytes(database, jobs)
    assert before["ann"] > before["bob"] + 400
    [claim, *_] = await world.claim()
    await world.succeed(claim, result='"' + "z" * 1000 + '"')
    after = await count_bytes(database, jobs)
    assert sum(after.values()) >= sum(before.values()) + 1000
    assert jobs.may_change
