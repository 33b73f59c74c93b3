"""Heartbeats over real connections: who is called when, and what a bad worker can do to others."""

import asyncio
import time
from cProfile import Profile
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from holdfast.model.work.states import TaskState
from holdfast.operations.placed.leadership import Deposed, resign
from holdfast.services.leading.lag import LAG_SECONDS, LATE_SECONDS
from holdfast.store.database import Database
from holdfast.wire.cluster import WorkerHeartbeatRequest
from tests.audits import assert_audit_is_silent
from tests.fleet import (
    Called,
    Fleet,
    Mood,
    a_task_on,
    answered,
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
SERVICES = str(Path("holdfast", "services"))


def be_late() -> None:
    """Block this process for longer than its lateness goes unnoticed."""
    time.sleep(LAG_SECONDS + LATE_SECONDS + 0.2)


async def test_every_worker_is_called_tick_after_tick(fleet: Fleet) -> None:
    workers = [await fleet.add(f"w{n}") for n in range(5)]
    async with fleet.beating(TICK):
        for worker in workers:
            await worker.be_called(3)
    assert [worker.at_once_max for worker in workers] == [1] * 5
    for worker in workers:
        numbers = [call.number for call in worker.calls]
        assert numbers == sorted(set(numbers))


async def test_whoever_is_rung_for_is_called_at_once(fleet: Fleet) -> None:
    worker, other = await fleet.add("w1"), await fleet.add("w2")
    async with fleet.beating() as beats:
        await eventually(lambda: worker.received and other.received)
        for _ in range(3):
            beats.ring(["w1"])
            await worker.be_called()
        assert other.received == 1, "the next tick is an hour away"


async def test_an_answer_costs_the_same_however_many_workers_there_are(fleet: Fleet) -> None:
    first = await fleet.add("w0")
    async with fleet.beating() as beats:

        async def count_calls() -> int:
            """Count what the services call while one worker is called a few times."""
            with Profile(builtins=False) as profile:
                for _ in range(20):
                    beats.ring(["w0"])
                    await first.be_called()
            return sum(each.callcount for each in profile.getstats() if SERVICES in str(each.code))

        alone = await count_calls()
        for number in range(1, 40):
            worker = await fleet.add(f"w{number}")
            beats.ring([worker.worker_id])
            await worker.be_called()
        assert await count_calls() < 2 * alone


async def test_a_new_worker_is_found_and_a_ring_for_it_speeds_that_up(fleet: Fleet) -> None:
    async with fleet.beating() as beats:
        first = await fleet.add("w1")
        await eventually(lambda: first.received)
        second = await fleet.add("w2")
        beats.ring(["w2"])
        await eventually(lambda: second.received)


async def test_the_first_answer_of_a_worker_and_start_and_end_of_an_attempt_are_told(
    fleet: Fleet, world: World
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating() as beats:
        await eventually(lambda: fleet.changes == 1)
        task_id = await a_task_on(fleet, world, worker)
        beats.ring(["w1"])
        await eventually(worker.running)
        assert fleet.changes == 1
        worker.start(task_id)
        beats.ring(["w1"])
        await eventually(lambda: fleet.changes == 2)
        worker.succeed(task_id)
        beats.ring(["w1"])
        await eventually(lambda: fleet.changes == 3)


async def test_a_worker_that_hangs_holds_up_nobody_and_is_not_called_twice(fleet: Fleet) -> None:
    hanging = await fleet.add("hanging", hang)
    others = [await fleet.add(f"w{n}") for n in range(3)]
    async with fleet.beating(TICK) as beats:
        await eventually(lambda: hanging.received)
        beats.ring(["hanging"])
        for other in others:
            await other.be_called(10)
        assert hanging.received == 1


async def test_a_worker_is_called_once_at_a_time_whenever_it_is_rung_for(fleet: Fleet) -> None:
    hanging, other = await fleet.add("hanging", hang), await fleet.add("other")
    async with fleet.beating(TICK) as beats:

        async def ring_for_ever() -> None:
            while True:
                beats.ring(["hanging"])
                await asyncio.sleep(0)

        ringing = asyncio.create_task(ring_for_ever())
        await eventually(lambda: hanging.received)
        await other.be_called(10)
        ringing.cancel()
    assert hanging.at_once_max == 1


BAD: dict[str, Mood] = {
    "a wrong secret": refuse(403),
    "a conflict": refuse(409),
    "an error": refuse(500),
    "a redirect": refuse(302),
    "no content": refuse(204, ""),
    "a closed connection": hang_up,
    "another worker's answer": lie(worker_id="somebody"),
    "the answer to another call": lie(number=0),
    "the answer to another leader": lie(epoch=99),
    "no answer at all": lie(worker_id=None),
    "a state that nobody reports": lie(
        running_tasks=[
            {"task_id": "1.0", "attempt": 0, "lease_token": str(uuid4()), "state": "SUCCEEDED"}
        ]
    ),
    "a task that cannot be": lie(
        running_tasks=[
            {"task_id": "one", "attempt": 0, "lease_token": str(uuid4()), "state": "RUNNING"}
        ]
    ),
    "not JSON": refuse(200, "<html>"),
    "an endless answer": refuse(200, "x" * (40 << 20)),
}


@pytest.mark.parametrize("mood", BAD.values(), ids=BAD)
async def test_three_bad_answers_in_a_row_make_a_worker_dead_and_it_is_left_alone(
    fleet: Fleet, world: World, mood: Mood
) -> None:
    bad, good = await fleet.add("bad", mood), await fleet.add("good")
    async with fleet.beating(TICK):
        await eventually(lambda: is_dead(world, bad))
        received = bad.received
        assert received >= 3
        await good.be_called(5)
        assert bad.received == received
        assert await failures(world, good) == 0
        assert not await is_dead(world, good)
    [row] = await world.clock.fetch("select lost_cause from holdfast.workers where lost_at notnull")
    assert row[0].startswith("3 heartbeats in a row failed, the last: ")


async def test_no_answer_in_time_is_a_failure(fleet: Fleet, world: World) -> None:
    hanging, good = await fleet.add("hanging", hang), await fleet.add("good")
    async with fleet.beating(TICK, call_seconds_max=0.5):
        await eventually(lambda: is_dead(world, hanging))
        assert hanging.received >= 3
        await good.be_called()
    [row] = await world.clock.fetch(
        "select last_failure from holdfast.workers where lost_at notnull"
    )
    assert row[0] == "no answer within 0.5 s"


async def test_a_worker_that_has_vanished_is_dead_and_its_tasks_are_lost(
    fleet: Fleet, world: World, database: Database
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating(TICK):
        task_id = await a_task_on(fleet, world, worker)
        await eventually(worker.running)
        await fleet.vanish(worker)
        await eventually(lambda: is_dead(world, worker))

        async def is_lost() -> bool:
            return (await world.task(task_id)).state == PENDING

        await eventually(is_lost)
    task = await world.task(task_id)
    assert task.attempts[0]["state"] == TaskState.WORKER_FAILED
    assert "3 heartbeats in a row failed" in task.attempts[0]["error"]
    lease = await world.lease(task_id)
    assert lease is not None, "its process may still run"
    assert lease["ending"]
    await assert_audit_is_silent(database)


async def test_one_failure_is_counted_a_tick_however_often_a_worker_is_called(
    fleet: Fleet, world: World
) -> None:
    worker = await fleet.add("w1", refuse(500))
    async with fleet.beating() as beats:
        await eventually(lambda: failures(world, worker))
        for _ in range(5):
            beats.ring(["w1"])
            await worker.be_called()
        worker.mood = well
        beats.ring(["w1"])
        await eventually(lambda: answered(world, worker))
        assert worker.received >= 7
    assert not await is_dead(world, worker)
    assert await failures(world, worker) == 0, "an answer makes good for it"


async def test_after_an_answer_a_failure_counts_within_the_same_tick(
    fleet: Fleet, world: World
) -> None:
    worker = await fleet.add("w1", refuse(500))
    async with fleet.beating() as beats:
        await eventually(lambda: failures(world, worker))
        worker.mood = well
        beats.ring(["w1"])
        await eventually(lambda: answered(world, worker))
        worker.mood = refuse(500)
        beats.ring(["w1"])
        # It would be given tasks otherwise that do not arrive, one after the other.
        await eventually(lambda: failures(world, worker))


async def test_a_worker_is_dead_only_by_failures_in_a_row(fleet: Fleet, world: World) -> None:
    worker = await fleet.add("w1")

    async def mood(worker: Called, request: web.Request, call: WorkerHeartbeatRequest) -> Any:
        return await (well if worker.received % 3 == 0 else refuse(500))(worker, request, call)

    worker.mood = mood
    async with fleet.beating(TICK):
        await worker.be_called(12)
    assert not await is_dead(world, worker)


async def test_nobody_is_blamed_while_this_server_was_late(
    fleet: Fleet, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await fleet.add("w1", hang)
    async with fleet.beating():
        await eventually(lambda: worker.received)
        be_late()
        worker.mood = well
        await fleet.vanish(worker)
        await eventually(lambda: "this server was late" in caplog.text)
    assert await failures(world, worker) == 0


async def test_nobody_is_blamed_for_what_is_found_when_a_late_server_wakes(
    fleet: Fleet, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse_and_be_late(_: Called, request: web.Request, __: Any) -> web.StreamResponse:
        answer = web.StreamResponse(status=500)
        await answer.prepare(request)
        await answer.write_eof(b"no")
        be_late()
        return answer

    worker = await fleet.add("w1", refuse_and_be_late)
    async with fleet.beating():
        await eventually(lambda: "this server was late" in caplog.text)
    assert await failures(world, worker) == 0


@pytest.mark.parametrize("steps", range(5))
async def test_heartbeats_can_be_stopped_while_they_are_being_woken(
    fleet: Fleet, steps: int
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating() as beats:
        await eventually(lambda: fleet.changes)
        assert fleet.running is not None
        worker.mood = hang
        beats.ring(["w1"])
        for _ in range(steps):
            await asyncio.sleep(0)
        fleet.running.cancel()
        await eventually(fleet.running.done)


async def test_a_deposed_leader_stops_calling(fleet: Fleet, world: World) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating(TICK):
        await worker.be_called()
        await resign(fleet.ledger, "leader")
        assert fleet.running is not None
        await eventually(fleet.running.done)
        assert isinstance(fleet.running.exception(), Deposed)
        received = worker.received
        assert await fleet.term("another")
    assert worker.received == received


async def test_a_heartbeat_that_cannot_be_prepared_is_prepared_again(
    fleet: Fleet, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await fleet.add("w1")
    async with fleet.beating(TICK):
        await worker.be_called()
        async with fleet.ledger.database.connection() as connection, connection.transaction():
            await connection.execute("select from holdfast.leadership for update")
            await eventually(lambda: "will be called again" in caplog.text)
        await worker.be_called(2)
