"""The tables of triggers and their runs through their functions."""

from datetime import timedelta

from holdfast.store.database import Transaction
from holdfast.store.tables.datasets.triggers import (
    DueRun,
    NewTrigger,
    TriggerRun,
    count_triggers,
    delete_trigger,
    list_due_runs,
    note_run,
    put_off_run,
    put_trigger,
    request_runs,
)
from holdfast.store.tables.datasets.versions import Version, insert_dataset, open_version
from tests.world import World


async def test_a_trigger_runs_once_for_each_version(world: World, tx: Transaction) -> None:
    job_id = await world.submit()
    await insert_dataset(tx, "d", actor="me", metadata="{}")
    for _ in range(2):
        await open_version(tx, "d", actor="me")
    trigger = NewTrigger("d", "t", '{"a": 1}', "[1]", "me")
    assert await put_trigger(tx, trigger)
    assert not await put_trigger(tx, trigger)
    assert await count_triggers(tx, "d", besides="other") == 1
    now = await tx.now()
    assert await request_runs(tx, Version("d", 1), now=now) == 1
    assert await request_runs(tx, Version("d", 1), now=now) == 0
    assert await request_runs(tx, Version("d", 2), now=now) == 1
    first, second = TriggerRun("d", "t", 1), TriggerRun("d", "t", 2)
    due = await list_due_runs(tx, 9)
    assert sorted(due) == [DueRun(run, '{"a": 1}', "[1]") for run in (first, second)]
    await note_run(tx, first, job_id=job_id)
    await put_off_run(tx, second, problem="no", delay=timedelta(minutes=1))
    assert await list_due_runs(tx, 9) == []
    assert await delete_trigger(tx, "d", "t")
    assert not await delete_trigger(tx, "d", "t")
