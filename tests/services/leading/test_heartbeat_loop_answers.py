"""What answers to heartbeats do to attempts: told again, kept, refused, lied about, lost."""

from typing import Any
from uuid import uuid4

from aiohttp import web

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.placed.leadership import resign
from holdfast.operations.placed.worker_heartbeats import Failure, count_failures
from holdfast.store.database import Database
from holdfast.wire.cluster import WorkerHeartbeatRequest
from tests.audits import assert_audit_is_silent
from tests.fleet import (
    Called,
    Fleet,
    a_task_on,
    failures,
    hang,
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


async def test_what_runs_on_a_worker_and_nobody_knows_is_to_be_killed_in_the_next_call(
    fleet: Fleet, world: World, database: Database
) -> None:
    mine, other = await fleet.add("mine"), await fleet.add("other", cpu=0.0)
    async with fleet.beating() as beats:
        task_id = await a_task_on(fleet, world, mine)
        beats.ring(["mine"])
        await eventually(mine.running)
        token = mine.held[str(task_id), 0].token
        stray = {"task_id": "999999.0", "attempt": 3, "lease_token": str(uuid4())}
        # One that the ledger has never heard of, and one whose lease is another worker's.
        others = {"task_id": str(task_id), "attempt": 0, "lease_token": str(token)}
        strangers = [entry | {"state": "RUNNING"} for entry in (stray, others)]
        other.mood = lie(running_tasks=strangers)
        beats.ring(["other"])
        await eventually(lambda: other.last_call.tasks_to_kill)
        assert [
            (kill.task_id, kill.attempt, str(kill.lease_token), kill.lease_ms)
            for kill in other.last_call.tasks_to_kill
        ] == [(str(task_id), 0, str(token), None), ("999999.0", 3, stray["lease_token"], None)]
        received = other.received
        beats.ring(["mine"])
        await mine.be_called()
        assert mine.last_call.tasks_to_kill == []
        assert other.received == received, "one that goes on naming it is told each tick"
        other.mood = well
        for _ in range(2):
            beats.ring(["other"])
            await other.be_called()
        assert other.last_call.tasks_to_kill == []
    assert mine.running() == [str(task_id)]
    await assert_audit_is_silent(database)


async def test_another_leader_learns_by_itself_what_nobody_knows(fleet: Fleet) -> None:
    stray = {"task_id": "999999.0", "attempt": 3, "lease_token": str(uuid4()), "state": "ASSIGNED"}
    worker = await fleet.add("w1", lie(running_tasks=[stray]))
    for _ in range(2):
        async with fleet.beating():
            await worker.be_called(2)
        first, second = worker.calls[-2:]
        assert [len(first.tasks_to_kill), len(second.tasks_to_kill)] == [0, 1]
        assert second.tasks_to_kill[0].task_id == "999999.0"
        await resign(fleet.ledger, "leader")


async def first_attempt_ended(world: World, task_id: TaskId) -> bool:
    """Tell whether the first attempt of a task has ended, and its lease is free."""
    task = await world.task(task_id)
    return bool(task.attempts) and task.attempts[0]["released_at"] is not None


async def test_what_two_answers_do_not_name_is_placed_elsewhere(
    fleet: Fleet, world: World, database: Database
) -> None:
    worker = await fleet.add("w1")
    worker.takes_work = False
    async with fleet.beating() as beats:  # the next tick is an hour away
        task_id = await a_task_on(fleet, world, worker)
        beats.ring(["w1"])
        await eventually(lambda: first_attempt_ended(world, task_id))
        named = [call for call in worker.calls if call.tasks_to_run]
        assert len(named) == 2
        other = await fleet.add("w2")
        beats.ring(["w2"])
        await eventually(lambda: other.received)
        await eventually(lambda: fleet.changes >= 2)
        assert await fleet.place() == {task_id: "w2"}
        beats.ring(["w2"])
        await eventually(other.running)
    assert (await world.task(task_id)).preemption_count == 0
    await assert_audit_is_silent(database)


async def test_what_cannot_have_reached_a_worker_is_placed_elsewhere_but_nothing_else(
    fleet: Fleet, world: World, database: Database
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating() as beats:
        sent = await a_task_on(fleet, world, worker)
        worker.mood = hang_up
        beats.ring(["w1"])
        await eventually(lambda: failures(world, worker))
        await world.clock.fetch("update holdfast.workers set consecutive_failures = 0")
        unsent = TaskId(await world.submit(queue=None), 0)
        assert await fleet.place() == {unsent: "w1"}
        await fleet.vanish(worker)
        beats.ring(["w1"])
        await eventually(lambda: first_attempt_ended(world, unsent))
    # It may have reached the worker before the connection broke.
    assert (await world.task(sent)).state == TaskState.ASSIGNED
    await assert_audit_is_silent(database)


async def test_what_was_placed_while_a_call_hung_is_placed_elsewhere_when_that_fails(
    fleet: Fleet, world: World, database: Database
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating() as beats:
        sent = await a_task_on(fleet, world, worker)
        worker.mood = hang
        beats.ring(["w1"])
        await worker.be_called()
        unsent, cancelled = [TaskId(await world.submit(queue=None), 0) for _ in range(2)]
        assert await fleet.place() == {unsent: "w1", cancelled: "w1"}
        await world.cancel_task(cancelled, "hard")
        worker.released.set()
        await eventually(lambda: first_attempt_ended(world, unsent))
        await eventually(lambda: first_attempt_ended(world, cancelled))
    assert (await world.task(unsent)).preemption_count == 0
    # It has reached the worker.
    assert (await world.task(sent)).state == TaskState.ASSIGNED
    await assert_audit_is_silent(database)


async def test_what_may_run_on_a_worker_is_not_released_because_it_is_to_end(
    fleet: Fleet, world: World
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating() as beats:
        sent = await a_task_on(fleet, world, worker)
        worker.mood = hang_up
        beats.ring(["w1"])
        await eventually(lambda: failures(world, worker))
        await world.clock.fetch("update holdfast.workers set consecutive_failures = 0")
        unsent = TaskId(await world.submit(queue=None), 0)
        assert await fleet.place() == {unsent: "w1"}
        await world.cancel_task(sent, "hard")
        await fleet.vanish(worker)
        beats.ring(["w1"])
        await eventually(lambda: first_attempt_ended(world, unsent))
    lease = await world.lease(sent)
    assert lease is not None
    assert lease["ending"]
