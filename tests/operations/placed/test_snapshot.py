"""What the scheduler plans from."""

from holdfast.operations.placed.snapshot import DEMAND_TASKS_MAX, SnapshotReader
from tests.placed_world import PlacedWorld


async def test_of_a_large_job_no_more_is_read_than_a_pass_could_place(
    cluster: PlacedWorld,
) -> None:
    await cluster.submit(inputs=list(range(DEMAND_TASKS_MAX + 50)))
    async with cluster.ledger.database.transaction() as tx:
        snapshot = await SnapshotReader(cluster.ledger).read(tx)
    [demand] = snapshot.demands
    assert demand.count == DEMAND_TASKS_MAX


async def test_one_job_is_read_as_all_are(cluster: PlacedWorld) -> None:
    await cluster.add("w1", cpu=3.0)
    first, second = await cluster.submit(replicas=2, coscheduling={}), await cluster.submit()
    reader = SnapshotReader(cluster.ledger)
    async with cluster.ledger.database.transaction() as tx:
        whole = await reader.read(tx)
        part = await reader.read(tx, second)
    assert [demand.job_id for demand in whole.demands] == [first, second]
    assert part.demands == whole.demands[1:]
    assert part.workers == whole.workers
    [worker] = whole.workers
    assert (worker.worker_id, worker.accepts, worker.capacity.cpu) == ("w1", True, 3.0)
