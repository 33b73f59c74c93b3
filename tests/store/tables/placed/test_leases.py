"""Leases of placed work through their functions."""

from datetime import timedelta

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.tables.placed.leases import (
    Booked,
    PlacedTask,
    adopt_leases,
    find_leases_of_worker,
    list_booked,
    list_devices,
    list_placed_stops,
    list_ports,
    list_unfinished_losses,
    place_tasks,
    read_gangs,
    read_wanted,
    renew_placed,
)
from holdfast.store.tables.placed.ready import WantedOfJob, take_ready_of_jobs
from holdfast.store.tables.workers.workers import mark_lost
from tests.placed_world import PlacedWorld


async def test_a_placed_lease_is_wanted_renewed_and_adopted(
    ledger: Ledger, cluster: PlacedWorld
) -> None:
    await cluster.add("w1", "w2")
    job_id = await cluster.submit([1])
    task = PlacedTask(
        TaskId(job_id, 0), "w1", timedelta(seconds=30), None, '{"http": 8000}', '["7"]'
    )
    async with ledger.database.transaction() as tx:
        await take_ready_of_jobs(tx, [WantedOfJob(job_id, None, 1)])
        assert await place_tasks(tx, [task]) == 1
        [wanted] = await read_wanted(tx, ["w1", "w2"])
        assert (wanted.worker_id, wanted.state, wanted.input) == ("w1", TaskState.ASSIGNED, "1")
        assert await list_booked(tx) == [Booked("w1", None, job_id, 1, 1)]
        assert await list_ports(tx) == [("host-w1", 8000)]
        assert await list_devices(tx) == [("host-w1", "name-w1", "7")]
        assert wanted.devices == '["7"]'
        assert await read_gangs(tx, {job_id: 0}) == [
            (job_id, 0, "http://w1:7000", '{"http": 8000}')
        ]
        fence = Fence(task.task_id, wanted.attempt, wanted.lease_token)
        assert await renew_placed(tx, [(fence, "w2")]) == []
        [renewed] = await renew_placed(tx, [(fence, "w1")])
        assert renewed[:3] == (job_id, 0, 0)
        assert await adopt_leases(tx, [fence], worker_id="w2", replaces="w1") == {fence}
        assert await find_leases_of_worker(tx, [fence], worker_id="w2") == {fence}
        assert await find_leases_of_worker(tx, [fence], worker_id="w1") == set()
        await mark_lost(tx, [("w2", "gone")])
    async with ledger.database.transaction() as tx:
        assert await list_unfinished_losses(tx) == [("w2", "gone")]


async def test_what_was_asked_to_stop_is_listed(ledger: Ledger, cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    task_id, _ = await cluster.placed(await cluster.submit())
    async with ledger.database.transaction() as tx:
        assert await list_placed_stops(tx) == []
    await cluster.cancel_task(task_id, "soft")
    async with ledger.database.transaction() as tx:
        assert await list_placed_stops(tx) == [("w1", *task_id, 0, False)]
