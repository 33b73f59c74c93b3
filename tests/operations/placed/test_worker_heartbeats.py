"""Heartbeats in the ledger: what is told, what an answer changes, when a worker is dead."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.placed.leadership import Deposed, resign
from holdfast.operations.placed.worker_heartbeats import (
    ALREADY_LOST,
    FAILURE_LENGTH_MAX,
    Failure,
    Heard,
    count_failures,
    list_called,
    prepare,
    store_answers,
)
from holdfast.operations.register import Registration, drain, register
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld
from tests.stand_in import StandIn

ASSIGNED, RUNNING = TaskState.ASSIGNED, TaskState.RUNNING


async def assigned(cluster: PlacedWorld, **fields: Any) -> TaskId:
    """Have a task placed that its worker has not heard of."""
    task_id = TaskId(await cluster.submit(**fields), 0)
    assert task_id in await cluster.place()
    return task_id


async def test_only_live_workers_with_an_address_are_called(cluster: PlacedWorld) -> None:
    await cluster.add("w1", "w2", "w3")
    await register(cluster.ledger, Registration("claimer", "c", "host"))
    await cluster.die(cluster.workers["w2"])
    assert await list_called(cluster.ledger) == ["w1", "w3"]
    prepared = await prepare(
        cluster.ledger, await cluster.term(), ["w1", "w2", "claimer", "nobody"]
    )
    assert [call.worker_id for call in prepared] == ["w1"]


async def test_a_worker_is_told_everything_that_is_leased_to_it_and_nothing_else(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1", cpu=2.0)
    first = await assigned(cluster)
    await cluster.add("w2", cpu=8.0)
    await assigned(cluster, resources={"cpu": 5})
    await cluster.submit(queue="q")
    await cluster.claim(worker="w1")
    [call] = await prepare(cluster.ledger, await cluster.term(), ["w1"])
    assert [wanted.fence for wanted in call.wanted] == [await cluster.fence(first)]
    assert (call.address, call.secret, call.answered) == (
        "http://w1:7000", cluster.workers["w1"].credential.call_secret, (1, 1),
    )  # fmt: skip
    assert not call.is_draining
    await drain(cluster.ledger, "w1", actor="ops")
    [call] = await prepare(cluster.ledger, await cluster.term(), ["w1"])
    assert call.is_draining


async def test_without_a_stored_answer_no_lease_is_told(cluster: PlacedWorld) -> None:
    await cluster.add("w1", host="h")
    task_id = await assigned(cluster)
    fence = await cluster.fence(task_id)
    await cluster.register(StandIn("w2"), replaces="w1", adopts=(fence,), host="h")
    [call] = await prepare(cluster.ledger, await cluster.term(), ["w2"])
    assert (call.answered, call.wanted[0].lease_remaining) == (None, None)


async def test_an_answer_renews_what_it_names_and_acknowledges_it(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    named, unnamed = await assigned(cluster), await assigned(cluster)
    before = {task_id: await cluster.lease(task_id) for task_id in (named, unnamed)}
    await cluster.clock.advance(20)
    heard = Heard("w1", 7, (await cluster.fence(named),))
    assert await store_answers(cluster.ledger, await cluster.term(), [heard]) == [True]
    renewed, left = await cluster.lease(named), await cluster.lease(unnamed)
    assert renewed is not None
    assert left == before[unnamed]
    assert renewed["acknowledged"]
    old = before[named]
    assert old is not None
    assert renewed["expires_at"] >= old["expires_at"] + timedelta(seconds=20)
    row = await cluster.worker("w1")
    assert (row["answered_epoch"], row["answered_number"]) == (1, 7)
    assert renewed["expires_at"] - row["answered_at"] <= timedelta(seconds=60)
    assert row["last_seen_at"] >= renewed["expires_at"] - timedelta(seconds=60)


async def test_an_answer_speaks_for_leases_of_its_worker_alone(cluster: PlacedWorld) -> None:
    await cluster.add("w1", cpu=1.0)
    mine = await assigned(cluster)
    await cluster.add("w2", cpu=1.0)
    others = await assigned(cluster)
    dump = await cluster.clock.fetch("select * from holdfast.leases order by job_id")
    fence = await cluster.fence(mine)
    strangers = (
        await cluster.fence(others),
        fence._replace(lease_token=uuid4()),
        fence._replace(attempt=1),
        fence._replace(task_id=TaskId(987654, 0)),
    )
    await cluster.clock.advance(20)
    assert await store_answers(
        cluster.ledger, await cluster.term(), [Heard("w1", 9, strangers)]
    ) == [True]
    assert await cluster.clock.fetch("select * from holdfast.leases order by job_id") == dump


async def test_answers_of_many_workers_are_stored_together(cluster: PlacedWorld) -> None:
    names = [f"w{n}" for n in range(5)]
    await cluster.add(*names, cpu=1.0)
    job_id = await cluster.submit(replicas=5)
    placed = await cluster.place()
    heard = [
        Heard(worker_id, 10 + task_id.task_index, (await cluster.fence(task_id),))
        for task_id, worker_id in placed.items()
    ]
    assert await store_answers(cluster.ledger, await cluster.term(), heard) == [True] * 5
    rows = await cluster.clock.fetch(
        "select answered_number from holdfast.workers order by answered_number"
    )
    assert [row[0] for row in rows] == [10, 11, 12, 13, 14]
    assert all(
        row[0] for row in await cluster.clock.fetch("select acknowledged from holdfast.leases")
    )
    assert await cluster.states(job_id) == [ASSIGNED] * 5


async def test_an_ending_lease_is_renewed_too_while_its_process_goes(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    task_id, _ = await cluster.placed(await cluster.submit())
    await cluster.cancel_job(task_id.job_id)
    before = await cluster.lease(task_id)
    await cluster.clock.advance(30)
    fence = await cluster.fence(task_id)
    await store_answers(cluster.ledger, await cluster.term(), [Heard("w1", 99, (fence,))])
    after = await cluster.lease(task_id)
    assert before is not None
    assert after is not None
    assert after["ending"]
    assert after["expires_at"] > before["expires_at"]


async def test_a_lease_that_somebody_holds_is_left_for_the_next_answer(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1")
    task_id = await assigned(cluster)
    heard = Heard("w1", 5, (await cluster.fence(task_id),))
    async with cluster.ledger.database.connection() as connection, connection.transaction():
        await connection.execute("select from holdfast.leases for update")
        assert await store_answers(cluster.ledger, await cluster.term(), [heard]) == [True]
    lease, row = await cluster.lease(task_id), await cluster.worker("w1")
    assert lease is not None
    assert (lease["acknowledged"], row["answered_number"]) == (False, 5)
    await store_answers(cluster.ledger, await cluster.term(), [heard._replace(number=6)])
    lease = await cluster.lease(task_id)
    assert lease is not None
    assert lease["acknowledged"]


async def test_the_answer_of_a_dead_worker_is_refused(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, worker = await cluster.placed(await cluster.submit())
    fence = await cluster.fence(task_id)
    await cluster.die(worker)
    before = await cluster.lease(task_id)
    row = await cluster.worker("w1")
    assert await store_answers(
        cluster.ledger, await cluster.term(), [Heard("w1", 50, (fence,))]
    ) == [False]
    assert await cluster.lease(task_id) == before, "its leases run out"
    assert await cluster.worker("w1") == row
    await assert_audit_is_silent(database)


async def test_failures_count_up_to_death_and_an_answer_begins_anew(cluster: PlacedWorld) -> None:
    await cluster.add("w1", "w2")
    term = await cluster.term()
    both = [Failure("w2", "slow"), Failure("w1", "gone")]
    for count in (1, 2):
        judged = await count_failures(cluster.ledger, term, both)
        assert [found.health for found in judged] == ["failing", "failing"]
        row = await cluster.worker("w1")
        assert (row["consecutive_failures"], row["last_failure"]) == (count, "gone")
    await cluster.beat("w2")
    judged = await count_failures(cluster.ledger, term, both)
    assert [found.health for found in judged] == ["failing", "dead"]
    assert judged[1].cause == "3 heartbeats in a row failed, the last: gone"
    assert (await cluster.worker("w1"))["lost_cause"] == judged[1].cause
    assert (await cluster.worker("w2"))["lost_at"] is None


async def test_the_dead_are_not_counted_any_more(cluster: PlacedWorld) -> None:
    [worker] = await cluster.add("w1")
    await cluster.die(worker)
    before = await cluster.worker("w1")
    failures = [Failure("w1", "gone"), Failure("nobody", "gone")]
    assert await count_failures(cluster.ledger, await cluster.term(), failures) == [
        ALREADY_LOST, ALREADY_LOST,
    ]  # fmt: skip
    assert await cluster.worker("w1") == before


async def test_a_long_reason_is_cut(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    await cluster.miss("w1", "x" * 5000)
    assert len((await cluster.worker("w1"))["last_failure"]) == FAILURE_LENGTH_MAX


async def test_a_deposed_leader_can_neither_read_nor_store(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    task_id = await assigned(cluster)
    term = await cluster.term()
    await resign(cluster.ledger, term.leader)
    before = await cluster.dump()
    with pytest.raises(Deposed):
        await prepare(cluster.ledger, term, ["w1"])
    heard = Heard("w1", 9, (await cluster.fence(task_id),))
    with pytest.raises(Deposed):
        await store_answers(cluster.ledger, term, [heard])
    with pytest.raises(Deposed):
        await count_failures(cluster.ledger, term, [Failure("w1", "gone")])
    assert await cluster.dump() == before


async def gang_of_three(cluster: PlacedWorld) -> list[TaskId]:
    """Submit a gang and add a worker for each member."""
    await cluster.add("w1", "w2", "w3", cpu=1.0)
    job_id = await cluster.submit(
        replicas=3, coscheduling={}, resources={"ports": ["rpc"]}, max_retries_failure=1
    )
    return [TaskId(job_id, index) for index in range(3)]


async def peers_of(cluster: PlacedWorld, worker_id: str) -> tuple[list[str], int | None]:
    """Read which peers and rank the one member on a worker would be given."""
    [call] = await prepare(cluster.ledger, await cluster.term(), [worker_id])
    [wanted] = call.wanted
    return [peer.partition(":")[0] for peer in wanted.peers], wanted.rank


async def test_a_member_that_is_called_late_is_given_the_peers_that_the_others_had(
    cluster: PlacedWorld,
) -> None:
    members = await gang_of_three(cluster)
    placed = await cluster.place()
    hosts = [placed[member] for member in members]
    assert [await peers_of(cluster, host) for host in hosts] == [(hosts, n) for n in range(3)]
    await cluster.beat(hosts[0])
    cluster.workers[hosts[0]].succeed(members[0])
    await cluster.beat(hosts[0])
    assert (await cluster.states(members[0].job_id))[0] == TaskState.SUCCEEDED
    assert await peers_of(cluster, hosts[2]) == (hosts, 2)


async def test_the_next_round_of_a_gang_is_of_those_that_have_not_succeeded(
    cluster: PlacedWorld,
) -> None:
    members = await gang_of_three(cluster)
    placed = await cluster.place()
    await cluster.beat()
    cluster.workers[placed[members[0]]].succeed(members[0])
    await cluster.beat()
    cluster.workers[placed[members[1]]].end(members[1], "failed")
    for _ in range(3):  # reported, its sibling told to end, and that reported
        await cluster.beat()
    placed = await cluster.place()
    hosts = [placed[member] for member in members[1:]]
    assert [await peers_of(cluster, host) for host in hosts] == [(hosts, 0), (hosts, 1)]
