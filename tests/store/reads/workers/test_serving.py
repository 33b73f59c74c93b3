"""What workers of a queue have free, by their own word or by their book."""

import pytest

from holdfast.model.workers.resources import Capacity, Resources
from holdfast.operations.register import Registration, drain, register
from holdfast.store.database import Database
from holdfast.store.reads.workers import serving
from holdfast.store.reads.workers.serving import find_need, list_serving
from tests.cluster import Cluster
from tests.world import World


async def serve(
    world: World, worker_id: str, cpu: float | None, queue: str = "q", book: str | None = None
) -> None:
    room = None if cpu is None else Capacity(cpu)
    found = Registration(
        worker_id, f"name-{worker_id}", "h", (queue,), claims_up_to=room, book=book
    )
    await register(world.ledger, found)


async def cores(database: Database, without: str | None = None) -> dict[str, tuple[float, float]]:
    """Read the cores of who serves: all of them, and those that are taken."""
    async with database.transaction() as tx:
        found = await list_serving(tx, "q", without=without)
    assert found is not None
    return {each.worker_id: (each.capacity.cpu, each.used.cpu) for each in found}


async def test_what_is_taken_is_what_claimed_tasks_name(world: World, database: Database) -> None:
    await serve(world, "a", 4)
    await serve(world, "b", 2)
    await serve(world, "other", 9, "elsewhere")
    await serve(world, "leaving", 9)
    assert await drain(world.ledger, "leaving", actor="eve")
    sized = await world.submit(replicas=2, resources={"cpu": 1.5})
    await world.submit(replicas=2)
    for _ in range(4):
        assert await world.claim(worker="a")
    assert await cores(database) == {"a": (4, 3), "b": (2, 0)}
    assert await cores(database, without="name-a") == {"b": (2, 0)}
    async with database.transaction() as tx:
        assert await find_need(tx, sized) == Resources(cpu=1.5)
        assert await find_need(tx, sized + 1) is None


async def test_of_a_shared_book_both_halves_take(world: World, database: Database) -> None:
    cluster = Cluster(world)
    await cluster.add("p", cpu=4.0, book="b")
    await serve(world, "a", 4, book="b")
    await world.submit(queue=None)
    assert len(await cluster.place()) == 1
    assert await cores(database) == {"a": (4, 1)}
    # The half that is called is gone: then there is nothing to take from.
    async with database.transaction() as tx:
        gone = "update holdfast.workers set lost_at = now() where worker_id = 'p'"
        await tx.connection.execute(gone)
    assert await cores(database) == {"a": (0, 0)}


async def test_where_one_takes_all_or_too_much_would_be_read_nothing_is_known(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await serve(world, "a", 4)
    await world.submit(replicas=2, resources={"cpu": 1})
    for _ in range(2):
        assert await world.claim(worker="a")
    monkeypatch.setattr(serving, "LEASES_MAX", 2)
    async with database.transaction() as tx:
        assert await list_serving(tx, "q") is None
    monkeypatch.setattr(serving, "LEASES_MAX", 3)
    assert await cores(database) == {"a": (4, 2)}
    await serve(world, "any", None)
    async with database.transaction() as tx:
        assert await list_serving(tx, "q") is None
        assert await list_serving(tx, "q", without="any") is not None
