"""The heartbeat of document 002: each of its issues, and the end state it asks for."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.model.workers.resources import Capacity
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.runtime import Options, open_runtime
from holdfast.store.database import Database
from holdfast.worker.allowing import EVERYTHING
from holdfast.worker.placed.worker import PlacedOptions, PlacedWorker
from holdfast.worker.slots import take_slot
from tests.audits import assert_audit_is_silent
from tests.fleet import Fleet, hang
from tests.placed_world import PlacedWorld
from tests.stand_in import StandIn
from tests.waiting import eventually

PENDING, RUNNING, SUCCEEDED = TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED
ASSIGNED, WORKER_FAILED = TaskState.ASSIGNED, TaskState.WORKER_FAILED


async def test_a_late_heartbeat_stops_neither_the_loop_nor_the_scheduler(
    ledger: Ledger, database: Database, database_url: str
) -> None:
    async with Fleet(ledger) as fleet:
        late = await fleet.add("late", hang)
        good = await fleet.add("good")
        async with open_runtime(Options(database_url, heartbeat_seconds=0.1)) as server:
            await eventually(lambda: late.received)
            spec = parse_spec({"entrypoint": {"command": ["true"]}})
            for _ in range(3):
                task_id = TaskId((await server.writers.submit(Submission(spec))).job_id, 0)
                await eventually(good.running)
                good.succeed(task_id)
                await eventually(lambda: not good.held)
        assert late.received == 1, "never two calls at once, and it still has time"
    await assert_audit_is_silent(database)


async def test_what_a_failed_heartbeat_carried_is_sent_again(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1")
    run, kill = TaskId(await cluster.submit(), 0), TaskId(await cluster.submit(), 0)
    await cluster.place()
    await cluster.beat()
    await cluster.cancel_job(kill.job_id)
    later = TaskId(await cluster.submit(), 0)
    await cluster.place()
    worker.is_silent = True
    await cluster.beat()
    worker.is_silent = False
    assert set(worker.running()) == {str(run), str(kill)}
    await cluster.beat()
    assert set(worker.running()) == {str(run), str(later)}
    await assert_audit_is_silent(database)


async def test_failures_are_counted_in_one_place_that_outlives_a_leader(
    cluster: PlacedWorld, ledger: Ledger
) -> None:
    [worker] = await cluster.add("w1")
    assert [await cluster.miss("w1"), await cluster.miss("w1")] == ["failing", "failing"]
    assert (await cluster.worker("w1"))["consecutive_failures"] == 2
    await cluster.restart()
    assert await cluster.miss("w1") == "dead"
    row = await cluster.worker("w1")
    assert row["lost_at"] is not None
    assert row["lost_cause"] == "3 heartbeats in a row failed, the last: no answer within 10 s"
    await cluster.beat()
    assert len(worker.calls) == 1, "dead is final: it is not called again"


async def test_an_answer_makes_good_for_the_failures_before_it(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    for _ in range(3):
        await cluster.miss("w1")
        await cluster.miss("w1")
        await cluster.beat("w1")
        row = await cluster.worker("w1")
        assert (row["consecutive_failures"], row["lost_at"]) == (0, None)


async def test_a_worker_with_a_failure_gets_nothing_new_until_it_answers(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1")
    task_id = TaskId(await cluster.submit(), 0)
    await cluster.miss("w1")
    assert await cluster.place() == {}
    await cluster.beat()
    assert await cluster.place() == {task_id: "w1"}


async def test_a_task_that_its_worker_has_lost_is_retried_at_once(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, worker = await cluster.placed(await cluster.submit())
    worker.drop(task_id)
    await cluster.beat()
    task = await cluster.task(task_id)
    assert (task.state, task.preemption_count) == (PENDING, 1)
    assert task.attempts[0]["state"] == WORKER_FAILED
    assert await cluster.lease(task_id) is None, "it is gone, and everybody knows"
    assert await cluster.place() == {task_id: "w1"}
    await assert_audit_is_silent(database)


async def test_a_task_that_never_arrived_is_not_missing(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1")
    task_id = TaskId(await cluster.submit(), 0)
    await cluster.place()
    worker.takes_work = False  # it was told, and lost it before it could say so
    await cluster.beat()
    assert worker.running() == []
    worker.takes_work = True
    await cluster.beat()
    assert worker.running() == [str(task_id)]
    task = await cluster.task(task_id)
    assert (task.state, task.attempt, task.preemption_count) == (ASSIGNED, 0, 0)
    await assert_audit_is_silent(database)


async def test_a_task_that_nobody_knows_is_killed_and_its_end_is_acknowledged(
    cluster: PlacedWorld, database: Database
) -> None:
    [worker] = await cluster.add("w1")
    known, _ = await cluster.placed(await cluster.submit())
    unknown = worker.held[str(known), 0]
    del worker.held[str(known), 0]
    worker.held["987654.0", 3] = unknown
    unknown.task_id, unknown.attempt = "987654.0", 3
    await cluster.clock.fetch("update holdfast.leases set acknowledged = false")
    await cluster.beat()
    assert worker.running() == [str(known)], "what is wanted is begun, what is not is ended"
    await cluster.beat()
    assert list(worker.held) == [(str(known), 0)]
    assert [name.task_id for name in worker.last_call.acknowledged] == ["987654.0"]
    await assert_audit_is_silent(database)


async def test_a_task_that_has_ended_meanwhile_is_killed(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, worker = await cluster.placed(await cluster.submit())
    worker.is_silent = True
    await cluster.pass_time(5)
    await cluster.cancel_job(task_id.job_id)
    worker.is_silent = False
    assert worker.running() == [str(task_id)]
    await cluster.beat()
    assert worker.running() == []
    assert await cluster.lease(task_id) is None
    await assert_audit_is_silent(database)


async def test_a_restarted_server_kills_nothing(cluster: PlacedWorld, database: Database) -> None:
    workers = await cluster.add("w1", "w2", cpu=2.0)
    job_id = await cluster.submit(replicas=4)
    placed = await cluster.place()
    await cluster.beat()
    for task_id, worker_id in placed.items():
        cluster.workers[worker_id].start(task_id)
    await cluster.beat()
    before = {worker.worker_id: worker.running() for worker in workers}
    old = await cluster.term()

    await cluster.restart()
    await cluster.clock.advance(20)
    await cluster.watch()
    await cluster.beat()
    new = await cluster.term()
    assert new.epoch > old.epoch
    assert {worker.worker_id: worker.running() for worker in workers} == before
    for worker in workers:
        assert worker.last_call.tasks_to_kill == []
        assert worker.last_call.epoch == new.epoch
    assert await cluster.states(job_id) == [RUNNING] * 4

    await cluster.pass_time(120)
    assert await cluster.states(job_id) == [RUNNING] * 4, "their leases are renewed"
    for task_id, worker_id in placed.items():
        cluster.workers[worker_id].succeed(task_id)
    await cluster.beat()
    assert await cluster.job_state(job_id) == SUCCEEDED
    await assert_audit_is_silent(database)


async def test_a_completion_that_a_stopped_server_had_heard_is_acknowledged_by_the_next(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, worker = await cluster.placed(await cluster.submit())
    worker.succeed(task_id)
    await cluster.beat()
    assert worker.held, "the acknowledgement goes with the next call"
    await cluster.restart()
    await cluster.beat()
    assert worker.held, "this server has only now heard of it"
    await cluster.beat()
    assert not worker.held
    assert await cluster.story(*task_id) == ["placed", "started", "succeeded"]
    await assert_audit_is_silent(database)


async def test_a_worker_that_starts_anew_takes_its_processes_over(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1", host="h")
    task_id, old = await cluster.placed(await cluster.submit())
    fence = await cluster.fence(task_id)
    old.is_silent = True
    new = StandIn("w2")
    new.held = old.held
    registered = await cluster.register(new, replaces="w1", adopts=(fence,), host="h")
    assert registered.adopted == (fence,)
    await cluster.beat()
    assert len(old.calls) == 3, "it is gone, and not called any more"
    await cluster.pass_time(90)
    assert (await cluster.task(task_id)).state == RUNNING
    new.succeed(task_id)
    await cluster.beat()
    task = await cluster.task(task_id)
    assert (task.state, task.preemption_count) == (SUCCEEDED, 0)
    assert task.attempts[0]["worker_id"] == "w2"
    await assert_audit_is_silent(database)


async def test_no_exception_is_swallowed(
    ledger: Ledger, cluster: PlacedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """An account that cannot be written breaks a heartbeat off: it is logged whole, and told."""
    async with Fleet(ledger) as fleet:
        worker = await fleet.add("w1")
        other = await fleet.add("w2", cpu=0.0)
        async with fleet.beating(0.1):
            await eventually(lambda: fleet.changes == 2)
            spec = parse_spec({"entrypoint": {"command": ["true"]}})
            task_id = TaskId((await submit_one(ledger, Submission(spec))).job_id, 0)
            await fleet.place()
            await eventually(worker.running)
            await cluster.clock.fetch("alter table holdfast.attempt_usage rename to hidden")
            worker.end(task_id, "succeeded", usage={"cpu_seconds": 1.0})
            await eventually(lambda: "the heartbeat of w1 broke off" in caplog.text)
            [record, *_] = [r for r in caplog.records if r.levelno == logging.ERROR]
            assert record.exc_info is not None
            await other.be_called(3)
            await cluster.clock.fetch("alter table holdfast.hidden rename to attempt_usage")
            await eventually(lambda: not worker.held)
    assert (await cluster.task(task_id)).state == SUCCEEDED


class SlowServer:
    """A server that takes its time to answer the first registration, and calls nobody."""

    def __init__(self) -> None:
        self.registered: list[float] = []
        self.answered_at = 0.0
        self.may_answer = asyncio.Event()

    async def register(self, request: web.Request) -> web.Response:
        """Register a worker, the first one when told to."""
        body = await request.json()
        self.registered.append(time.monotonic())
        await self.may_answer.wait()
        self.answered_at = self.answered_at or time.monotonic()
        answer = {"worker_id": body["worker_id"], "taken_over": 0, "adopted": []}
        return web.json_response(answer)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Listen for the time of a block; yields the address."""
        app = web.Application()
        app.router.add_post("/internal/worker-register", self.register)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def test_the_clock_of_silence_starts_with_serving(tmp_path: Path) -> None:
    """A registration that takes longer than the timeout uses none of it up."""
    server, timeout = SlowServer(), 1.0
    async with server.open() as url:
        options = PlacedOptions(
            url,
            tmp_path / "work",
            Capacity(cpu=1.0),
            EVERYTHING,
            name="w",
            heartbeat_timeout_seconds=timeout,
        )
        slot = take_slot(tmp_path / "slots")
        worker = PlacedWorker(options, slot)
        running = asyncio.create_task(worker.run())
        try:
            [began_at] = await eventually(lambda: server.registered)
            await eventually(lambda: time.monotonic() > began_at + timeout)
            server.may_answer.set()
            await eventually(lambda: len(server.registered) == 2)
            assert server.registered[1] - server.answered_at >= timeout
        finally:
            running.cancel()
            await asyncio.wait([running])
            slot.close()
