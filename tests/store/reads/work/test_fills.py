"""Which tasks were made good by replays of some dead letters of their job."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.operations.submitting.replay import replay
from holdfast.store.reads.work.fills import find_fills
from tests.operations.letters import dead_inputs
from tests.world import World


async def test_what_succeeded_in_a_replay_stands_in_the_place_of_what_did_not(
    ledger: Ledger, world: World
) -> None:
    job_id = await dead_inputs(world, 4, 3, max_attempts=1)
    async with ledger.database.transaction() as tx:
        assert await find_fills(tx, job_id) == ({}, {}, [])
    [made] = await replay(ledger, [TaskId(job_id, 0), TaskId(job_id, 2)], actor="ann")
    part = made.job_id or 0
    good, bad = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    await world.succeed(good)
    async with ledger.database.transaction() as tx:
        found = await find_fills(tx, job_id)
    assert (found.tasks, found.open) == ({0: TaskId(part, 0)}, [part])
    await world.fail(bad)
    await world.run_chores()
    [made] = await replay(ledger, [TaskId(part, 1)], actor="ann")
    again = made.job_id or 0
    [claim] = await world.claim()
    await world.succeed(claim)
    await world.run_chores()
    async with ledger.database.transaction() as tx:
        found = await find_fills(tx, job_id)
        assert found.tasks == {0: TaskId(part, 0), 2: TaskId(again, 0)}
        assert (found.open, found.last_job(), set(found.seqs)) == ([], again, {part, again})
        earlier = await find_fills(tx, job_id, before=again)
        assert (earlier.tasks, earlier.last_job()) == ({0: TaskId(part, 0)}, part)
