"""Tasks at the heads of queues that are larger than any worker there."""

from holdfast.model.workers.resources import Capacity
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from holdfast.store.database import Database
from holdfast.store.reads.limits import queues
from tests.world import World


async def serve(world: World, worker_id: str, cpu: float | None, *served: str) -> None:
    """Have a worker serve queues, with so many cores for tasks that name them."""
    capacity = None if cpu is None else Capacity(cpu)
    registration = Registration(worker_id, "w", "h", served, claims_up_to=capacity)
    await register(world.ledger, registration)


async def test_what_is_larger_than_every_worker_of_its_queue_is_counted_and_explained(
    world: World, database: Database
) -> None:
    await serve(world, "w1", 2, "small", "mixed", "paused")
    await serve(world, "w2", 4, "small")
    await serve(world, "w3", None, "mixed")
    large = {}
    for queue in ("small", "mixed", "paused", "unserved"):
        large[queue] = await world.submit([1, 2], queue=queue, resources={"cpu": 5})
    fitting = await world.submit(queue="small", resources={"cpu": 4})
    plain = await world.submit(queue="small")
    gone = await world.submit(queue="small", resources={"cpu": 6})
    await world.cancel_job(gone)
    await pause_queue(world.ledger, "paused", actor="eve")
    async with database.transaction() as tx:
        view = await queues.list_queues(tx)
        told = {
            job_id: (await queues.read_condition(tx, "small", job_id)).too_large
            for job_id in (large["small"], fitting, plain)
        }
        mixed = await queues.read_condition(tx, "mixed", large["mixed"])
    assert {name: row.never_fits for name, row in view.queues.items() if row.never_fits} == {
        "small": 2
    }
    assert told == {large["small"]: "the largest has 4 cpu", fitting: None, plain: None}
    assert mixed.too_large is None, "one of its workers takes whatever comes"


async def test_who_claims_unregistered_may_have_room(world: World, database: Database) -> None:
    await serve(world, "w9", 2, "q")
    await world.submit()
    assert len(await world.claim()) == 1
    await world.submit(resources={"cpu": 5})
    async with database.transaction() as tx:
        assert (await queues.list_queues(tx)).queues["q"].never_fits == 0
