"""Incarnations: one id per start, and a successor on the same host takes over at once."""

import pytest

from holdfast.errors import IllegalMove, Invalid, LeaseConflict, NotFound
from holdfast.model.states import TaskState
from holdfast.operations.ledger import Ledger
from holdfast.operations.register import Registration, drain, register
from tests.world import World

OLD = Registration("w1", "worker", "host")
NEW = Registration("w2", "worker", "host", ("q",), replaces="w1")


async def test_registering_twice_is_harmless(ledger: Ledger, world: World) -> None:
    assert (await register(ledger, OLD)).taken_over == 0
    before = await world.dump()
    assert (await register(ledger, OLD)).taken_over == 0
    assert await world.dump() == before


async def test_an_id_belongs_to_one_worker(ledger: Ledger) -> None:
    await register(ledger, OLD)
    for other in (Registration("w1", "other", "host"), Registration("w1", "worker", "elsewhere")):
        with pytest.raises(Invalid) as refused:
            await register(ledger, other)
        assert refused.value.field == "worker_id"


async def test_a_successor_has_the_tasks_retried_at_once(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=3)
    await register(ledger, OLD)
    claims = await world.claim(2, worker="w1")
    await world.start(claims[0])
    assert (await register(ledger, NEW)).taken_over == 2
    for mine in claims:
        task = await world.task(mine.task_id)
        assert (task.state, task.attempt, task.preemption_count) == (TaskState.PENDING, 1, 1)
        assert task.attempts[0]["state"] == TaskState.WORKER_FAILED
        with pytest.raises(LeaseConflict):
            await world.renew(mine)
    again = await world.claim(5, worker="w2")
    assert sorted(mine.attempt for mine in again) == [0, 1, 1]
    assert await world.story(job_id) == [
        "claimed", "started", "worker_failed", "retried", "claimed",
    ]  # fmt: skip


async def test_a_successor_proves_that_ending_leases_are_gone(ledger: Ledger, world: World) -> None:
    await world.submit(timeout=10.0, max_retries_failure=1, lease=120.0, backoff={"base": 0.0})
    await register(ledger, OLD)
    [mine] = await world.claim(worker="w1")
    await world.start(mine)
    await world.pass_time(15)
    assert await world.claim(worker="w2") == []
    await register(ledger, NEW)
    task = await world.task(mine.task_id)
    assert (task.preemption_count, task.failure_count) == (0, 1)
    [again] = await world.claim(worker="w2")
    assert again.attempt == 1


async def test_a_soft_cancelled_task_of_a_replaced_worker_is_killed(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    await register(ledger, OLD)
    [mine] = await world.claim(worker="w1")
    await world.cancel_task(mine.task_id, "soft")
    await register(ledger, NEW)
    task = await world.task(mine.task_id)
    assert (task.state, task.preemption_count) == (TaskState.KILLED, 0)


async def test_other_workers_keep_their_leases(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=2)
    await register(ledger, OLD)
    await world.claim(worker="w1")
    [mine] = await world.claim(worker="w3")
    await register(ledger, NEW)
    assert (await world.succeed(mine)).accepted


async def test_only_the_same_host_can_know_that_a_worker_is_gone(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    await register(ledger, OLD)
    await world.claim(worker="w1")
    before = await world.dump()
    with pytest.raises(Invalid) as refused:
        await register(ledger, Registration("w2", "worker", "elsewhere", replaces="w1"))
    assert refused.value.field == "replaces"
    assert await world.dump() == before


async def test_the_replaced_incarnation_can_never_speak_again(ledger: Ledger, world: World) -> None:
    await world.submit()
    await register(ledger, OLD)
    await register(ledger, NEW)
    with pytest.raises(IllegalMove):
        await register(ledger, OLD)
    with pytest.raises(LeaseConflict):
        await world.claim(worker="w1")


async def test_a_repeat_of_the_takeover_is_harmless(ledger: Ledger, world: World) -> None:
    await world.submit()
    await register(ledger, OLD)
    await world.claim(worker="w1")
    assert (await register(ledger, NEW)).taken_over == 1
    [mine] = await world.claim(worker="w2")
    before = await world.dump()
    assert (await register(ledger, NEW)).taken_over == 0
    assert await world.dump() == before
    assert (await world.succeed(mine)).accepted


async def test_a_worker_nobody_knows_cannot_be_replaced(ledger: Ledger, world: World) -> None:
    with pytest.raises(NotFound):
        await register(ledger, NEW)
    assert await world.count("workers") == 0


async def test_bad_registrations_name_their_field(ledger: Ledger, world: World) -> None:
    bad = [
        ("worker_id", Registration("", "worker", "host")),
        ("worker_id", Registration("a b", "worker", "host")),
        ("worker_id", Registration("w" * 129, "worker", "host")),
        ("name", Registration("w1", "", "host")),
        ("name", Registration("w1", "a\x00", "host")),
        ("host", Registration("w1", "worker", "")),
        ("host", Registration("w1", "worker", "h" * 257)),
        ("queues", Registration("w1", "worker", "host", ("q\x00",))),
        ("replaces", Registration("w1", "worker", "host", replaces="w1")),
        ("replaces", Registration("w1", "worker", "host", replaces="\x00")),
    ]
    for field, registration in bad:
        with pytest.raises(Invalid) as refused:
            await register(ledger, registration)
        assert refused.value.field == field
    assert await world.count("workers") == 0


async def test_a_worker_is_asked_to_drain_once_and_by_somebody(
    ledger: Ledger, world: World
) -> None:
    await register(ledger, OLD)
    assert await drain(ledger, "w1", actor="ops")
    [first] = await world.clock.fetch("select draining_at, draining_by from holdfast.workers")
    await world.clock.advance(5)
    assert await drain(ledger, "w1", actor="somebody else")
    [again] = await world.clock.fetch("select draining_at, draining_by from holdfast.workers")
    assert tuple(again) == tuple(first)
    assert first["draining_by"] == "ops"


async def test_who_is_not_there_or_gone_cannot_drain(ledger: Ledger, world: World) -> None:
    assert not await drain(ledger, "nobody", actor="ops")
    await register(ledger, OLD)
    await register(ledger, NEW)
    before = await world.dump()
    assert not await drain(ledger, "w1", actor="ops")
    for field, worker_id, actor in (("worker_id", "a b", "ops"), ("actor", "w2", "o\x00ps")):
        with pytest.raises(Invalid) as refused:
            await drain(ledger, worker_id, actor=actor)
        assert refused.value.field == field
    assert await world.dump() == before
