"""A success that overtakes the report of its start: both are recorded, in order."""

import asyncio

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.complete import Completed
from holdfast.operations.report import Report, record
from tests.audits import assert_audit_is_silent
from tests.waiting import eventually, insist
from tests.world import World, fence_of

_WAITING = "select 1 from pg_locks where not granted"


async def test_a_success_waits_for_its_start_that_has_not_committed_yet(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    async with ledger.database.transaction() as tx:
        tx.news = News()
        await record(ledger, tx, [Report(fence_of(mine), TaskState.RUNNING)])
        success = asyncio.create_task(insist(lambda: world.succeed(mine)))

        async def is_waiting() -> bool:
            return success.done() or bool(await world.clock.fetch(_WAITING))

        await eventually(is_waiting)
        assert not success.done()
    assert await success == Completed(mine.task_id, accepted=True)
    assert await world.story(job_id) == ["claimed", "started", "succeeded"]
    await assert_audit_is_silent(ledger.database)
