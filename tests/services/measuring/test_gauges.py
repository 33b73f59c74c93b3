"""What a scrape knows of the ledger as it stands."""

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from holdfast.model.workers.resources import Capacity
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.queues import pause_queue
from holdfast.operations.register import Registration, register
from holdfast.services.measuring.gauges import Gauges, read_gauges
from holdfast.store.database import Database
from tests.cluster import Cluster
from tests.usage_limits import FIVE, gate, hold, set_limit
from tests.world import World


async def samples_of(database: Database) -> dict[tuple[str, str], float]:
    """Read the gauges as (name, value of the label) and value."""
    return {
        (sample.name, next(iter(sample.labels.values()))): sample.value
        for metric in await read_gauges(database)
        for sample in metric.samples
    }


async def test_gauges_tell_how_queues_workers_and_leases_stand(
    world: World, database: Database
) -> None:
    await register(world.ledger, Registration("old", "w", "h"))
    await world.submit([1, 2, 3])
    await world.clock.advance(40)
    await register(world.ledger, Registration("w1", "w", "h"))
    await register(world.ledger, Registration("w2", "w", "h", replaces="w1"))
    [first, _] = await world.claim(2, worker="w2")
    await world.cancel_task(first.task_id)
    cluster = Cluster(world)
    await cluster.add("w3")
    await cluster.miss("w3")
    await pause_queue(world.ledger, "closed", actor="eve")
    found = await samples_of(database)
    assert found["holdfast_queue_depth", "q"] == 1
    assert found["holdfast_queue_oldest_age_seconds", "q"] >= 40
    assert found["holdfast_queue_running", "q"] == 1
    assert (found["holdfast_queue_paused", "q"], found["holdfast_queue_paused", "closed"]) == (0, 1)
    for health in ("healthy", "failing", "silent", "lost"):
        assert found["holdfast_workers", health] == 1
    assert (found["holdfast_leases", "open"], found["holdfast_leases", "ending"]) == (1, 1)


async def test_demand_is_what_runs_and_what_workers_could_start(
    world: World, database: Database
) -> None:
    small = Registration("w1", "w", "h", ("q",), claims_up_to=Capacity(1))
    await register(world.ledger, small)
    await world.submit([1, 2, 3])
    await world.submit([4, 5], resources={"cpu": 64})
    await world.claim(1, worker="w1")
    assert (await samples_of(database))["holdfast_queue_demand", "q"] == 3
    await pause_queue(world.ledger, "q", actor="eve")
    assert (await samples_of(database))["holdfast_queue_demand", "q"] == 1


async def test_what_was_cancelled_waits_in_no_queue(world: World, database: Database) -> None:
    job_id = await world.submit([1, 2, 3])
    assert (await samples_of(database))["holdfast_queue_depth", "q"] == 3
    await world.cancel_job(job_id)
    found = await samples_of(database)
    assert found.get(("holdfast_queue_depth", "q"), 0) == 0
    assert found.get(("holdfast_queue_oldest_age_seconds", "q"), 0) == 0


async def test_open_dead_letters_are_counted_by_reason(world: World, database: Database) -> None:
    for _ in range(2):
        await world.submit(type="mail")
    for claim in await world.claim(2):
        await dead_letter_task(world.ledger, claim.task_id, actor="eve", reason="poison")
    found = await samples_of(database)
    assert found["holdfast_dead_letters_open", "policy_violation"] == 2
    assert found["holdfast_dead_letters_open", "timeout"] == 0
    await discard(world.ledger, [claim.task_id], actor="eve")
    found = await samples_of(database)
    assert found["holdfast_dead_letters_open", "policy_violation"] == 1


async def test_an_empty_ledger_has_gauges_too(database: Database) -> None:
    found = await samples_of(database)
    assert found["holdfast_workers", "healthy"] == 0
    assert found["holdfast_leases", "open"] == 0


async def test_gauges_are_read_again_only_after_a_while(world: World, database: Database) -> None:
    registry = CollectorRegistry()
    current = Gauges(database)
    registry.register(current)
    assert b"holdfast_queue_depth" not in generate_latest(registry)
    await current.refresh()
    await world.submit([1, 2, 3])
    await current.refresh()
    assert b'holdfast_queue_depth{queue="q"}' not in generate_latest(registry)


async def test_gauges_that_are_old_are_read_again(world: World, database: Database) -> None:
    registry = CollectorRegistry()
    current = Gauges(database, fresh_seconds=0.0)
    registry.register(current)
    await current.refresh()
    await world.submit([1, 2, 3])
    await current.refresh()
    assert b'holdfast_queue_depth{queue="q"} 3.0' in generate_latest(registry)


async def test_gauges_tell_what_is_held_of_limits_and_waits_for_them(
    world: World, database: Database
) -> None:
    bucket = await set_limit(world, limit=msgspec.structs.replace(FIVE, most=2.0))
    await set_limit(world, "idle", msgspec.structs.replace(FIVE, only_for="r"))
    await hold(world, bucket, count=2, slots=2)
    await gate(world, bucket, count=3)
    found = await samples_of(database)
    assert found["holdfast_limit_slots_used", "mail"] == 4
    assert found["holdfast_limit_slots_surplus", "mail"] == 2
    assert found["holdfast_limit_gated", "mail"] == 3
    assert found["holdfast_limit_gated", "idle"] == 0
    assert found["holdfast_queue_gated", "q"] == 3
