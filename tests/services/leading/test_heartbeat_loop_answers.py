"""What answers to heartbeats do to attempts: told again, kept, refused, lied about, lost."""

from typing import Any
from uuid import uuid4

from aiohttp import web

from holdfast.model.ids import TaskId
from holdfast.model.states import TaskState
from holdfast.operations.placed.worker_heartbeats import Failure, count_failures
from holdfast.store.database import Database
from holdfast.wire.cluster import WorkerHeartbeatRequest
from tests.audits import assert_audit_is_silent
from tests.fleet import (
    Called,
    Fleet,
    a_task_on,
    failures,
    hang_up,
    is_dead,
    lie,
    refuse,
    well,
)
from tests.waiting import eventually
from tests.world import World

TICK = 0.05
PENDING, RUNNING, SUCCEEDED = TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED
FAILED = TaskState.FAILED


async def test_what_a_failed_call_carried_is_sent_again(fleet: Fleet, world: World) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating() as beats:
        task_id = await a_task_on(fleet, world, worker)
        worker.mood = hang_up
        beats.ring(["w1"])
        await eventually(lambda: failures(world, worker))
        worker.mood = well
        beats.ring(["w1"])
        await eventually(worker.running)
    [sent] = worker.last_call.tasks_to_run
    assert (sent.task_id, sent.attempt) == (str(task_id), 0)
    assert bytes(sent.job) != b"null"


async def test_an_end_is_repeated_until_it_is_acknowledged(
    fleet: Fleet, world: World, database: Database
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating() as beats:
        task_id = await a_task_on(fleet, world, worker)
        beats.ring(["w1"])
        await eventually(worker.running)
        worker.succeed(task_id, 42)

        async def lose_the_answer(
            worker: Called, request: web.Request, call: WorkerHeartbeatRequest
        ) -> Any:
            worker.obey(call)
            return await hang_up(worker, request, call)

        worker.mood = lose_the_answer
        beats.ring(["w1"])
        await eventually(lambda: failures(world, worker))
        assert (await world.task(task_id)).state != SUCCEEDED
        worker.mood = well
        beats.ring(["w1"])
        await eventually(lambda: not worker.held)
        assert (await world.task(task_id)).state == SUCCEEDED
        [name] = worker.last_call.acknowledged
        assert (name.task_id, name.attempt) == (str(task_id), 0)
        beats.ring(["w1"])
        await worker.be_called()
    assert worker.last_call.acknowledged == [], "once heard, it is not told again"
    await assert_audit_is_silent(database)


async def test_a_row_that_somebody_holds_keeps_nobody_from_being_called(
    fleet: Fleet, world: World, database: Database
) -> None:
    dying, other = await fleet.add("dying"), await fleet.add("other", cpu=0.0)
    async with fleet.beating(TICK):
        task_id = await a_task_on(fleet, world, dying)
        await eventually(dying.running)
        async with database.connection() as connection, connection.transaction():
            await connection.execute("select from holdfast.tasks for update")
            dying.mood = refuse(500)
            await eventually(lambda: is_dead(world, dying))
            await other.be_called(5)
            assert (await world.task(task_id)).state != PENDING

        async def is_lost() -> bool:
            return (await world.task(task_id)).state == PENDING

        await eventually(is_lost)
    assert (await world.task(task_id)).preemption_count == 1
    await assert_audit_is_silent(database)


async def test_what_a_leader_left_undone_of_a_loss_is_done_by_the_next(
    fleet: Fleet, world: World, database: Database
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating(TICK):
        task_id = await a_task_on(fleet, world, worker)
        await eventually(worker.running)
    for _ in range(3):
        await count_failures(fleet.ledger, await fleet.term(), [Failure("w1", "gone")])
    assert (await world.task(task_id)).state != PENDING, "it died between the two steps"
    async with fleet.beating(TICK):

        async def is_lost() -> bool:
            return (await world.task(task_id)).state == PENDING

        await eventually(is_lost)
    await assert_audit_is_silent(database)


async def test_an_end_that_cannot_be_kept_is_a_failure_that_says_why(
    fleet: Fleet, world: World, database: Database
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating(TICK):
        task_id = await a_task_on(fleet, world, worker)
        await eventually(worker.running)
        worker.succeed(task_id, "x" * (2 << 20))
        await eventually(lambda: not worker.held)
    task = await world.task(task_id)
    [attempt] = task.attempts
    assert (task.state, attempt["error_class"], attempt["stage"]) == (FAILED, "Unfit", "output")
    assert "result" in attempt["error"]
    await assert_audit_is_silent(database)


async def test_lies_about_attempts_change_nothing(
    fleet: Fleet, world: World, database: Database
) -> None:
    liar, honest = await fleet.add("liar"), await fleet.add("honest", cpu=0.0)
    async with fleet.beating() as beats:
        mine = await a_task_on(fleet, world, liar)
        beats.ring(["liar"])
        await eventually(liar.running)
        token = str(liar.held[str(mine), 0].token)
        others = await world.submit(queue=None)
        running = [
            {"task_id": str(mine), "attempt": 0, "lease_token": token, "state": "RUNNING"},
            {"task_id": str(mine), "attempt": 0, "lease_token": str(uuid4()), "state": "RUNNING"},
            {"task_id": str(mine), "attempt": 7, "lease_token": token, "state": "RUNNING"},
            {"task_id": f"{others}.0", "attempt": 0, "lease_token": token, "state": "RUNNING"},
            {"task_id": "999999.0", "attempt": 0, "lease_token": token, "state": "BUILDING"},
        ]
        bogus = [
            {"task_id": f"{others}.0", "attempt": 0, "lease_token": token, "status": "succeeded"},
            {"task_id": "999999.0", "attempt": 0, "lease_token": token, "status": "failed"},
        ]
        liar.mood = lie(running_tasks=running, completed_tasks=bogus)
        beats.ring(["liar"])
        await liar.be_called(2)
        assert {name.task_id for name in liar.last_call.acknowledged} == {
            f"{others}.0", "999999.0",
        }, "a refusal is as final as a record"  # fmt: skip
        liar.mood = lie(running_tasks=[running[0] | {"state": "ASSIGNED"}])
        beats.ring(["liar"])
        await liar.be_called()
        beats.ring(["liar"])
        await liar.be_called()
    assert (await world.task(mine)).state == RUNNING
    assert (await world.task(TaskId(others, 0))).state == PENDING
    assert await failures(world, liar) == 0
    assert honest.received
    await assert_audit_is_silent(database)
