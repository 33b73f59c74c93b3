"""Incarnations: one id per start, and a successor on the same host takes over at once."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import IllegalMove, Invalid, LeaseConflict, NotFound, Refused
from holdfast.ledger.ledger import Ledger
from holdfast.model.access.tokens import hash_secret
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.operations.register import (
    Placing,
    Registered,
    Registration,
    drain,
    leave,
    register,
)
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld
from tests.stand_in import StandIn
from tests.world import World, fence_of

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


async def test_a_crash_is_that_of_the_one_that_is_replaced(ledger: Ledger) -> None:
    for crash, replaces in (("exit code 3", None), ("x" * 1001, "w1"), ("\0", "w1")):
        with pytest.raises(Refused, match="crash"):
            await register(ledger, replace(NEW, crash=crash, replaces=replaces))


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


# Workers that are called.

CAPACITY = Capacity(cpu=8.0)
GOOD = Placing("http://10.0.0.7:7000", CAPACITY, {"zone": "a", "gpu_gb": 80})


def called(worker_id: str = "w1", placing: Placing = GOOD, **fields: Any) -> Registration:
    """Describe a worker that is to be called."""
    fields = {"secret": "s" * 16} | fields
    return Registration(worker_id, "worker", "host", placing=placing, **fields)


async def test_what_a_called_worker_says_of_itself_is_kept(ledger: Ledger, world: World) -> None:
    await register(ledger, called())
    [row] = await world.clock.fetch(
        "select address, secret_hash, capacity::text, attributes::text, consecutive_failures, "
        "answered_at from holdfast.workers"
    )
    assert tuple(row) == (
        "http://10.0.0.7:7000", hash_secret("s" * 16), '{"cpu": 8.0}',
        '{"zone": "a", "gpu_gb": 80}', 0, None,
    )  # fmt: skip


async def test_a_worker_that_repeats_itself_is_known_by_its_secret(
    ledger: Ledger, world: World
) -> None:
    await register(ledger, called())
    await register(ledger, Registration("w2", "worker", "host"))
    before = await world.dump()
    await register(ledger, called())
    assert await world.dump() == before
    strangers = [
        called(secret="t" * 16),
        Registration("w1", "worker", "host"),
        called("w2"),
    ]
    for stranger in strangers:
        with pytest.raises(Invalid) as refused:
            await register(ledger, stranger)
        assert refused.value.field == "worker_id"
    assert await world.dump() == before


BAD: list[tuple[str, Placing]] = [
    ("address", replace(GOOD, address="10.0.0.7:7000")),
    ("address", replace(GOOD, address="ftp://10.0.0.7:7000")),
    ("address", replace(GOOD, address="http://10.0.0.7")),
    ("address", replace(GOOD, address="http://:7000")),
    ("address", replace(GOOD, address="http://h:7000/path")),
    ("address", replace(GOOD, address="http://h:7000\n")),
    ("address", replace(GOOD, address="http://user@h:7000")),
    ("address", replace(GOOD, address="http://" + "h" * 300 + ":1")),
    ("capacity.cpu", replace(GOOD, capacity=Capacity(cpu=-1.0))),
    ("capacity.cpu", replace(GOOD, capacity=Capacity(cpu=float("nan")))),
    ("capacity.cpu", replace(GOOD, capacity=Capacity(cpu=float("inf")))),
    ("capacity.memory", replace(GOOD, capacity=Capacity(memory=-1))),
    ("capacity.disk", replace(GOOD, capacity=Capacity(disk=1 << 62))),
    ("capacity.gpu", replace(GOOD, capacity=Capacity(gpu=-1))),
    ("capacity.gpu", replace(GOOD, capacity=Capacity(gpu=1025))),
    ("capacity.devices", replace(GOOD, capacity=Capacity(gpu=1, devices=["0", "1"]))),
    ("capacity.devices", replace(GOOD, capacity=Capacity(gpu=2, devices=["0", "0"]))),
    ("capacity.devices", replace(GOOD, capacity=Capacity(gpu=1, devices=["0,1"]))),
    ("capacity.devices", replace(GOOD, capacity=Capacity(gpu=1, devices=[""]))),
    ("attributes", replace(GOOD, attributes={"": 1})),
    ("attributes", replace(GOOD, attributes={"a\x00": 1})),
    ("attributes.a", replace(GOOD, attributes={"a": "x" * 1025})),
    ("attributes.a", replace(GOOD, attributes={"a": "\x00"})),
    ("attributes.a", replace(GOOD, attributes={"a": float("nan")})),
    ("attributes", replace(GOOD, attributes={f"a{n}": n for n in range(101)})),
]


@pytest.mark.parametrize(("field", "placing"), BAD)
async def test_a_worker_that_cannot_be_called_names_its_field(
    ledger: Ledger, world: World, field: str, placing: Placing
) -> None:
    with pytest.raises(Refused) as refused:
        await register(ledger, called(placing=placing))
    assert getattr(refused.value, "field", None) == field
    assert await world.count("workers") == 0


@pytest.mark.parametrize("address", ["http://[::1]:7000", "https://gpu-1.rack_2.example:443"])
async def test_addresses_have_many_forms(ledger: Ledger, address: str) -> None:
    await register(ledger, called(placing=replace(GOOD, address=address)))


async def test_adopts_goes_with_replaces_and_an_address(ledger: Ledger, world: World) -> None:
    fence = Fence(TaskId(1, 0), 0, uuid4())
    for field, registration in (
        ("adopts", called("w2", adopts=(fence,))),
        ("adopts", Registration("w2", "worker", "host", replaces="w1", adopts=(fence,))),
        ("attempt", called("w2", replaces="w1", adopts=(fence._replace(attempt=-1),))),
    ):
        with pytest.raises(Invalid) as refused:
            await register(ledger, registration)
        assert refused.value.field == field
    assert await world.count("workers") == 0


async def test_live_attempts_are_adopted_and_ending_ones_only_bound(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", host="h")
    live, ending, left = [(await cluster.placed(await cluster.submit()))[0] for _ in range(3)]
    await cluster.cancel_job(ending.job_id)
    fences = {task_id: await cluster.fence(task_id) for task_id in (live, ending)}
    guessed = [(await cluster.fence(it))._replace(lease_token=uuid4()) for it in (live, left)]
    adopts = (*fences.values(), *guessed)
    registered = await cluster.register(StandIn("w2"), replaces="w1", adopts=adopts, host="h")
    assert registered == Registered(1, (fences[live],)), "what was not presented has ended"
    for task_id in (live, ending):
        lease = await cluster.lease(task_id)
        assert lease is not None
        assert lease["worker_id"] == "w2"
    assert await cluster.lease(left) is None
    assert (await cluster.task(left)).state == TaskState.PENDING
    assert (await cluster.task(live)).state == TaskState.RUNNING
    await assert_audit_is_silent(database)

    again = await cluster.register(cluster.workers["w2"], replaces="w1", adopts=adopts, host="h")
    assert again.adopted == registered.adopted, "the first answer may have been lost"
    await cluster.beat("w2")
    [kill] = cluster.workers["w2"].last_call.tasks_to_kill
    assert kill.task_id == str(ending)
    assert await cluster.lease(ending) is None, "it is not there: its process is gone"
    await assert_audit_is_silent(database)


async def test_nobody_adopts_from_a_worker_it_does_not_replace(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", host="h")
    task_id, _ = await cluster.placed(await cluster.submit())
    await cluster.add("w2", host="h")
    fence = await cluster.fence(task_id)
    registered = await cluster.register(StandIn("w3"), replaces="w2", adopts=(fence,), host="h")
    assert registered.adopted == ()
    lease = await cluster.lease(task_id)
    assert lease is not None
    assert lease["worker_id"] == "w1"
    with pytest.raises(Invalid) as refused:
        await cluster.register(StandIn("w4"), replaces="w1", adopts=(fence,), host="elsewhere")
    assert refused.value.field == "replaces"
    await assert_audit_is_silent(database)


async def test_claimed_work_cannot_be_adopted(cluster: PlacedWorld) -> None:
    await cluster.add("w1", host="h")
    await cluster.submit(queue="q")
    [mine] = await cluster.claim(worker="w1")
    registered = await cluster.register(
        StandIn("w2"), replaces="w1", adopts=(fence_of(mine),), host="h"
    )
    assert registered == Registered(1, ())


async def test_a_dead_worker_starts_anew_and_tells_of_what_had_ended(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", host="h")
    task_id, worker = await cluster.placed(await cluster.submit())
    fence = await cluster.fence(task_id)
    await cluster.die(worker)
    with pytest.raises(IllegalMove):
        await cluster.register(worker, host="h")
    registered = await cluster.register(StandIn("w2"), replaces="w1", adopts=(fence,), host="h")
    assert registered == Registered(0, ()), "what it ran has ended"
    await cluster.beat("w2")
    assert await cluster.lease(task_id) is None
    assert await cluster.place() == {task_id: "w2"}
    await assert_audit_is_silent(database)


async def test_who_leaves_gives_everything_back_at_once(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    running, worker = await cluster.placed(await cluster.submit())
    ending, _ = await cluster.placed(await cluster.submit())
    await cluster.cancel_job(ending.job_id)
    assert await leave(cluster.ledger, "w1", worker.secret) == 2
    assert await cluster.count("leases") == 0
    assert (await cluster.task(running)).state == TaskState.PENDING
    assert (await cluster.worker("w1"))["lost_cause"] == "left"
    await cluster.beat()
    assert len(worker.calls) == 5, "nobody calls it any more"
    assert await leave(cluster.ledger, "w1", worker.secret) == 0
    await assert_audit_is_silent(database)


async def test_only_the_worker_itself_can_leave(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    await register(cluster.ledger, Registration("claimer", "c", "host"))
    await cluster.placed(await cluster.submit())
    before = await cluster.dump()
    with pytest.raises(Invalid) as refused:
        await leave(cluster.ledger, "w1", "s" * 16)
    assert refused.value.field == "secret"
    for nobody in ("nobody", "claimer"):
        with pytest.raises(NotFound):
            await leave(cluster.ledger, nobody, "")
    assert await cluster.dump() == before
