"""Workers on a real ledger: how they are, what they hold, and who is missing."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import NotFound
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.register import Registration, leave, register
from holdfast.rules.health import DEAD_AFTER_FAILURES
from holdfast.store.database import Database
from holdfast.store.reads.work import attempts
from holdfast.store.reads.workers import workers
from holdfast.store.reads.workers.workers import MissingWorker, WorkerLoad, WorkerRow
from holdfast.store.tables.upkeep.samples import Tally, add_sample
from tests.cluster import GB, Cluster
from tests.store.raw import Raw
from tests.world import World


async def workers_of(database: Database, page_size: int = 100) -> list[WorkerRow]:
    """List the workers, page by page."""
    found: list[WorkerRow] = []
    after = workers.FIRST_WORKER
    for _ in range(100):
        async with database.snapshot() as tx:
            page = await workers.list_workers(tx, after=after, page_size=page_size)
        found += page.rows
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the list has no end")


async def test_workers_are_listed_with_the_living_first(world: World, database: Database) -> None:
    for worker_id in ("d", "c", "b"):
        await register(world.ledger, Registration(worker_id, f"name of {worker_id}", "h", ("q",)))
    await world.clock.advance(31)
    await register(world.ledger, Registration("e", "e", "h", replaces="c"))
    await register(world.ledger, Registration("a", "a", "h", ("q", "r")))
    expected = [("a", "healthy"), ("e", "healthy"), ("b", "silent"), ("d", "silent"), ("c", "lost")]
    for page_size in (1, 2, 100):
        found = await workers_of(database, page_size)
        assert [(row.worker_id, workers.HEALTH[row.illness]) for row in found] == expected
    assert found[0].queues == ["q", "r"]
    assert found[-1].replaced_by == "e"
    assert found[-1].lost_cause == "replaced by e"


async def test_a_worker_that_is_heard_of_is_healthy_again(
    world: World, lasting: Raw, database: Database
) -> None:
    await register(world.ledger, Registration("w1", "w", "h"))
    await world.clock.advance(31)
    assert [workers.HEALTH[row.illness] for row in await workers_of(database)] == ["silent"]
    await lasting.run("update holdfast.workers set last_seen_at = holdfast.now()")
    assert [workers.HEALTH[row.illness] for row in await workers_of(database)] == ["healthy"]
    async with database.transaction() as tx:
        found = await workers.count_workers(tx)
    assert found == {"healthy": 1, "failing": 0, "silent": 0, "lost": 0}


async def test_a_called_worker_is_judged_by_its_failures_in_a_row(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add("a", "b", "c")
    await register(world.ledger, Registration("d", "d", "h", ("q",)))
    await world.clock.advance(31)
    await cluster.miss("b")
    for number in range(DEAD_AFTER_FAILURES):
        await cluster.miss("c", f"refused for the {number}. time")
    found = await workers_of(database)
    health = [(row.worker_id, workers.HEALTH[row.illness]) for row in found]
    assert health == [("a", "healthy"), ("b", "failing"), ("d", "silent"), ("c", "lost")]
    assert [row.consecutive_failures for row in found] == [0, 1, 0, DEAD_AFTER_FAILURES]
    assert (found[1].last_failure, found[0].last_failure) == ("connection refused", None)
    assert (found[3].last_failure, found[3].address) == ("refused for the 2. time", "http://c:7000")
    async with database.transaction() as tx:
        assert await workers.count_workers(tx) == dict.fromkeys(workers.HEALTH, 1)
    await cluster.answer("b")
    assert [row.illness for row in await workers_of(database)] == [0, 0, 2, 3]


async def test_a_worker_whose_attempts_nearly_all_failed_is_failing_in_the_list_and_the_count(
    world: World, database: Database
) -> None:
    ends = Counter({("good", "succeeded"): 9, ("good", "failed"): 1, ("stopped", "killed"): 9})
    ends.update({("bad", "failed"): 41, ("gone", "failed"): 41, ("new", "succeeded"): 1})
    for worker_id in ("good", "stopped", "bad", "gone"):
        await register(world.ledger, Registration(worker_id, worker_id, "h", ("q",)))
    await register(world.ledger, Registration("new", "new", "h", replaces="gone"))
    async with database.transaction() as tx:
        await add_sample(tx, "server", Tally(ends=ends), depth=0, running=0)
    health = {row.worker_id: workers.HEALTH[row.illness] for row in await workers_of(database, 1)}
    well = dict.fromkeys(("good", "stopped", "new"), "healthy")
    assert health == {**well, "bad": "failing", "gone": "lost"}
    async with database.transaction() as tx:
        found = await workers.count_workers(tx)
    assert found == {"healthy": 3, "failing": 1, "silent": 0, "lost": 1}


async def test_pages_of_workers_join_whatever_their_health(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add(*(f"w{number}" for number in range(6)))
    for worker_id in ("w1", "w4"):
        await cluster.miss(worker_id)
    for page_size in (1, 2, 4):
        found = await workers_of(database, page_size)
        assert [row.worker_id for row in found] == ["w0", "w2", "w3", "w5", "w1", "w4"]


async def test_what_is_booked_is_the_sum_over_unreleased_leases(
    world: World, database: Database
) -> None:
    cluster = Cluster(world)
    await cluster.add("w1", gpu=4)
    await cluster.add("w2", cpu=0.5)
    small = await world.submit(replicas=2, queue=None, resources={"cpu": 0.5, "memory": "1GB"})
    large = await world.submit(queue=None, resources={"cpu": 2, "disk": "3GB", "gpu": 2})
    assert len(await cluster.place()) == 3
    await world.cancel_task(TaskId(small, 0))
    async with database.snapshot() as tx:
        loads = await workers.read_loads(tx, world.ledger.specs, ["w1", "w2", "nobody"])
    total = [loads[name].used for name in ("w1", "w2")]
    assert sum(used.cpu for used in total) == 3.0
    assert sum(used.memory for used in total) == 2 * GB
    assert (loads["w1"].used.disk, loads["w1"].used.gpu) == (3 * GB, 2)
    held = loads["w1"].task_ids + loads["w2"].task_ids
    assert sorted(held) == [TaskId(small, 0), TaskId(small, 1), TaskId(large, 0)]
    assert loads["nobody"] == WorkerLoad([], Capacity())


async def test_of_many_tasks_on_a_worker_the_first_are_named(
    world: World, database: Database
) -> None:
    await register(world.ledger, Registration("w1", "w", "h"))
    job_id = await world.submit([0] * (workers.HELD_SHOWN_MAX + 5))
    await world.claim(workers.HELD_SHOWN_MAX + 5, worker="w1")
    async with database.snapshot() as tx:
        loads = await workers.read_loads(tx, world.ledger.specs, ["w1"])
    assert loads["w1"].task_ids == [TaskId(job_id, n) for n in range(workers.HELD_SHOWN_MAX)]
    assert loads["w1"].used == Capacity()


async def test_a_worker_holds_what_it_has_not_released(world: World, database: Database) -> None:
    await register(world.ledger, Registration("w1", "w", "h"))
    await register(world.ledger, Registration("w2", "w", "h"))
    await world.submit([1, 2, 3])
    claims = await world.claim(2, worker="w1")
    await world.cancel_task(claims[0].task_id)
    async with database.snapshot() as tx:
        worker = await workers.get_worker(tx, "w1")
        idle = await workers.get_worker(tx, "w2")
        with pytest.raises(NotFound, match="there is no worker w3"):
            await workers.get_worker(tx, "w3")
        assert await attempts.count_leases(tx) == (1, 1)
    assert (worker.leases, idle.leases) == (2, 0)


async def test_whoever_is_lost_or_silent_is_missed_unless_it_left_with_empty_hands(
    world: World, database: Database
) -> None:
    async def missing() -> list[Any]:
        async with database.snapshot() as tx:
            now = await tx.now()
            return await workers.list_missing_workers(tx, now, recent=timedelta(hours=1))

    cluster = Cluster(world)
    await cluster.add("dead", "leaving")
    for _ in range(3):
        await cluster.miss("dead")
    await leave(world.ledger, "leaving", "s" * 32)
    await register(world.ledger, Registration("silent", "w", "h"))
    await register(world.ledger, Registration("holding", "w", "h"))
    await register(world.ledger, Registration("old", "w", "h"))
    await register(world.ledger, Registration("new", "w", "h", replaces="old"))
    await world.submit([1, 2])
    await world.claim(2, worker="holding")
    assert [(one.worker_id, one.leases) for one in await missing()] == [("dead", 0)]
    await world.clock.advance(31)
    holding, dead = await missing()
    assert holding == MissingWorker("holding", False, None, 2)
    assert (dead.worker_id, dead.is_lost) == ("dead", True)
    assert dead.lost_cause.startswith("3 heartbeats in a row failed")
    await world.clock.advance(3600)
    assert [one.worker_id for one in await missing()] == ["holding"]
