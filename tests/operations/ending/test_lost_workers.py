"""The leases of a worker that is gone: ended at once, released when that is proven."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending import lost_workers
from holdfast.operations.ending.lost_workers import BATCH_MAX, end_gone_worker, lose_worker
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld
from tests.world import World

PENDING, ASSIGNED, RUNNING = TaskState.PENDING, TaskState.ASSIGNED, TaskState.RUNNING
WORKER_FAILED, KILLED = TaskState.WORKER_FAILED, TaskState.KILLED


async def test_what_a_dead_worker_ran_has_ended_and_is_released_with_its_lease(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, _ = await cluster.placed(await cluster.submit())
    assert await lose_worker(cluster.ledger, "w1", "3 heartbeats in a row failed") == 1
    task = await cluster.task(task_id)
    assert (task.state, task.preemption_count) == (PENDING, 1)
    assert task.attempts[0]["error"] == "worker lost: 3 heartbeats in a row failed"
    assert task.attempts[0]["released_at"] is None
    lease = await cluster.lease(task_id)
    assert lease is not None
    assert lease["ending"]
    assert await cluster.count("ready") == 0
    await assert_audit_is_silent(database)


async def test_what_a_buried_worker_ran_is_ready_at_once(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, _ = await cluster.placed(await cluster.submit())
    assert await end_gone_worker(cluster.ledger, "w1") == 1
    assert await cluster.lease(task_id) is None
    assert await cluster.count("ready") == 1
    task = await cluster.task(task_id)
    assert (task.state, task.preemption_count) == (PENDING, 1)
    await assert_audit_is_silent(database)


async def test_who_was_lost_first_is_released_when_it_is_buried(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, _ = await cluster.placed(await cluster.submit())
    await lose_worker(cluster.ledger, "w1", "silent")
    assert await end_gone_worker(cluster.ledger, "w1") == 1
    assert await cluster.lease(task_id) is None
    assert (await cluster.task(task_id)).preemption_count == 1, "it was lost once"
    await assert_audit_is_silent(database)


async def test_repeats_and_strangers_end_nothing(cluster: PlacedWorld) -> None:
    await cluster.add("w1", cpu=1.0)
    await cluster.placed(await cluster.submit())
    await lose_worker(cluster.ledger, "w1", "silent")
    before = await cluster.dump()
    assert await lose_worker(cluster.ledger, "w1", "silent") == 0
    assert await lose_worker(cluster.ledger, "nobody", "silent") == 0
    assert await end_gone_worker(cluster.ledger, "nobody") == 0
    assert await cluster.dump() == before


async def test_other_workers_keep_what_they_have(cluster: PlacedWorld) -> None:
    await cluster.add("w1", "w2", cpu=1.0)
    job_id = await cluster.submit(inputs=[1, 2])
    placed = await cluster.place()
    await lose_worker(cluster.ledger, "w1", "silent")
    for task_id, worker_id in placed.items():
        state = PENDING if worker_id == "w1" else ASSIGNED
        assert (await cluster.task(task_id)).state == state
    assert await cluster.job_state(job_id) == RUNNING


async def test_a_loss_before_the_worker_had_named_the_attempt_is_free_five_times(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id = TaskId(await cluster.submit(), 0)
    for losses in range(1, 8):
        assert await cluster.place() == {task_id: "w1"}
        await end_gone_worker(cluster.ledger, "w1")
        task = await cluster.task(task_id)
        assert (task.state, task.preemption_count) == (PENDING, max(losses - 5, 0))
        await cluster.pass_time(1)
    await assert_audit_is_silent(database)


async def test_a_gang_restarts_as_a_whole_when_one_host_is_lost(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", "w2", "w3", cpu=1.0)
    job_id = await cluster.submit(replicas=3, coscheduling={})
    placed = await cluster.place()
    await cluster.beat()
    await end_gone_worker(cluster.ledger, "w1")
    assert await cluster.states(job_id) == [PENDING] * 3
    counts = [(await cluster.task(TaskId(job_id, index))).preemption_count for index in range(3)]
    assert sum(counts) == 1, "a round costs one"
    for task_id, worker_id in placed.items():
        lease = await cluster.lease(task_id)
        assert (lease is None) == (worker_id == "w1"), "the other processes are not gone yet"
    await cluster.beat("w2", "w3")
    assert await cluster.count("leases") == 0
    await assert_audit_is_silent(database)


async def test_a_soft_cancelled_task_of_a_lost_worker_is_killed(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, _ = await cluster.placed(await cluster.submit())
    await cluster.cancel_task(task_id, "soft")
    await lose_worker(cluster.ledger, "w1", "silent")
    task = await cluster.task(task_id)
    assert (task.state, task.preemption_count) == (KILLED, 0)
    await assert_audit_is_silent(database)


async def test_a_worker_with_many_attempts_loses_them_all(
    cluster: PlacedWorld, database: Database
) -> None:
    count = BATCH_MAX + 7
    job_id = await cluster.submit(inputs=list(range(count)), queue="q")
    claimed = 0
    while claimed < count:
        claimed += len(await cluster.claim(500, worker="w1"))
    assert await lose_worker(cluster.ledger, "w1", "silent") == count
    assert set(await cluster.states(job_id)) == {PENDING}
    assert await end_gone_worker(cluster.ledger, "w1") == count
    assert await cluster.count("leases") == 0
    await assert_audit_is_silent(database)


async def test_a_worker_with_many_attempts_loses_all_of_the_jobs_that_nobody_holds(
    cluster: PlacedWorld, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_workers, "BATCH_MAX", 5)
    jobs = [await cluster.submit(queue="q") for _ in range(12)]
    await cluster.claim(12, worker="w1")
    async with Database(database_url) as holder, holder.transaction() as tx:
        await tx.connection.execute(
            f"select from holdfast.jobs where job_id <= {jobs[4]} for no key update"
        )
        assert await end_gone_worker(cluster.ledger, "w1") == 7
        assert await cluster.count("leases") == 5
    assert await end_gone_worker(cluster.ledger, "w1") == 5


async def test_a_crash_is_free_five_times_and_is_never_forgotten(
    ledger: Ledger, world: World, database: Database
) -> None:
    await world.submit(max_retries_preemption=1, on_exhausted="dead_letter")
    counts = []
    for number in range(7):
        [mine] = await world.claim(worker="w1")
        assert mine.free_loss_count == number
        assert await end_gone_worker(ledger, "w1", "exit code 3") == 1
        task = await world.task(mine.task_id)
        assert task.attempts[-1]["error"] == "worker crashed: exit code 3"
        counts.append(task.preemption_count)
        await world.pass_time(60)
    assert counts == [0, 0, 0, 0, 0, 1, 2]
    assert task.state == TaskState.DEAD_LETTERED
    await assert_audit_is_silent(database)
