"""The table of what is to be undone through its functions."""

from typing import Any

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.states import JobState
from holdfast.store.tables.order.undos import (
    Cause,
    NewUndo,
    end_undo,
    find_used_jobs,
    has_unsubmitted_undos,
    insert_undos,
    list_compensations,
    measure_undone_tasks,
    note_compensation,
    read_causes,
    read_compensates,
    read_open_undos,
    read_undone_job,
    read_undone_outputs,
    read_undone_tasks,
)
from tests.world import World

UNDONE: dict[str, Any] = {"compensation": {"function": "app:undo"}, "on_exhausted": "fail"}


async def test_a_job_that_failed_is_noted_and_undone_once(ledger: Ledger, world: World) -> None:
    job_id, undoing = await world.submit(["a"], **UNDONE), await world.submit(queue="other")
    [mine] = await world.claim()
    await world.start(mine)
    await world.fail(mine, "PermanentError")
    async with ledger.database.transaction() as tx:
        cause = Cause(job_id, None, is_released=True, is_undone_itself=True)
        assert await read_causes(tx, [job_id]) == {job_id: cause}
        assert await find_used_jobs(tx, [job_id]) == []
        undo = NewUndo(job_id, job_id, job_id)
        assert await insert_undos(tx, [undo]) == {job_id}
        assert await insert_undos(tx, [undo]) == set()
        [found] = await read_open_undos(tx, job_id, batch_max=9)
        assert found.job_id == job_id
        assert await has_unsubmitted_undos(tx, job_id)
        await note_compensation(tx, job_id, compensation_job_id=undoing)
        assert not await has_unsubmitted_undos(tx, job_id)
        end = {"compensation_job_id": undoing, "succeeded": True}
        assert await end_undo(tx, job_id, **end) == job_id  # type: ignore[arg-type]
        assert await end_undo(tx, job_id, **end) is None  # type: ignore[arg-type]


async def test_what_a_compensation_is_made_of_is_read(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(["a"], **UNDONE)
    [mine] = await world.claim()
    await world.start(mine)
    await world.fail(mine, "PermanentError")
    async with ledger.database.transaction() as tx:
        assert await read_undone_job(tx, job_id) == (JobState.FAILED, "boom")
        tasks = await read_undone_tasks(tx, job_id, after=-1, batch_max=9)
        assert tasks == [(0, JobState.FAILED, '"a"', None, "boom")]
        assert await read_undone_outputs(tx, job_id, batch_max=9, bytes_max=99) == []
        assert await measure_undone_tasks(tx, job_id) == (1, 3)
        assert await list_compensations(tx, job_id) == []
        assert await read_compensates(tx, job_id) is None
