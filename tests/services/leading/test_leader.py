"""One server leads: it calls and places; when it stops, another one does, and nothing is lost."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.placed.leadership import lead
from holdfast.rules.submitting.submission import parse_spec
from holdfast.services.leading.leader import Leader
from holdfast.services.runtime import Options, Runtime, open_runtime
from holdfast.services.waking.doorbell import Doorbells
from holdfast.services.waking.wake_ups import WakeUps
from holdfast.services.writers import Writers
from holdfast.store.database import Database, LockTimeout
from tests.audits import assert_audit_is_silent
from tests.fleet import HOUR, Called, Fleet, hang
from tests.placed_world import break_moves
from tests.waiting import eventually
from tests.world import World

TICK = 0.1


def a_job(**fields: Any) -> Submission:
    """Describe a job that is to be placed."""
    return Submission(parse_spec({"entrypoint": {"command": ["true"]}, **fields}))


class Post:
    """A way to other servers that writes down what it is given."""

    only_leftovers = True

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def publish(self, queue: str, task_ids: Sequence[TaskId]) -> None:
        self.sent.append(queue)


async def leading(*servers: Runtime) -> Runtime:
    """Wait until one of several servers leads."""

    def find() -> list[Runtime]:
        return [server for server in servers if server.leader.is_leading]

    [leader] = await eventually(find)
    return leader


async def ran(server: Runtime, worker: Called) -> TaskId:
    """Have a job run to its end on a worker."""
    task_id = TaskId((await server.writers.submit(a_job())).job_id, 0)
    await eventually(lambda: str(task_id) in worker.running())
    worker.succeed(task_id)
    server.hint(worker.worker_id)
    await eventually(lambda: not worker.held)
    return task_id


async def test_a_leader_calls_places_and_hears_the_end(
    fleet: Fleet, world: World, database: Database, database_url: str
) -> None:
    worker = await fleet.add("w1")
    async with open_runtime(Options(database_url, heartbeat_seconds=TICK)) as server:
        task_id = await ran(server, worker)
    assert (await world.task(task_id)).state == TaskState.SUCCEEDED
    await assert_audit_is_silent(database)


async def test_with_hints_nobody_waits_for_a_tick(
    fleet: Fleet, world: World, database_url: str
) -> None:
    worker = await fleet.add("w1")
    async with open_runtime(Options(database_url, heartbeat_seconds=HOUR)) as server:
        for _ in range(3):
            await ran(server, worker)


async def test_a_worker_that_hangs_in_a_call_is_given_nothing_new_meanwhile(
    fleet: Fleet, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.services.leading.heartbeat_loop.HANG_SECONDS", 0.0)
    hanging = await fleet.add("w1", cpu=100.0)
    async with open_runtime(Options(database_url, heartbeat_seconds=HOUR)) as server:
        await ran(server, hanging)
        hanging.mood = hang
        server.hint("w1")
        await hanging.be_called()
        job_id = (await server.writers.submit(a_job())).job_id
        other = await fleet.add("w2", cpu=1.0)
        server.hint("w2")
        await eventually(lambda: other.running() == [f"{job_id}.0"])
        lease = await world.lease(TaskId(job_id, 0))
        assert lease is not None
        assert (lease["worker_id"], lease["attempt"]) == ("w2", 0)
    assert hanging.running() == []


async def test_workers_hear_of_what_was_placed_beside_what_is_broken(
    fleet: Fleet, world: World, database_url: str
) -> None:
    worker = await fleet.add("w1")
    await break_moves(world, await world.submit(queue=None, priority=5))
    gang = await world.submit(queue=None, replicas=2, coscheduling={})
    async with open_runtime(Options(database_url, heartbeat_seconds=HOUR)):
        await eventually(lambda: len(worker.running()) == 2)
    assert worker.running() == [f"{gang}.0", f"{gang}.1"]


async def test_of_two_servers_one_leads_and_takes_hints_from_the_other(
    fleet: Fleet, world: World, database_url: str
) -> None:
    worker = await fleet.add("w1")
    options = Options(database_url, heartbeat_seconds=HOUR)
    async with open_runtime(options) as one, open_runtime(options) as two:
        leader = await leading(one, two)
        other = two if leader is one else one
        await eventually(lambda: worker.received)
        assert not other.leader.is_leading
        await ran(other, worker)


async def test_a_clean_stop_lets_the_next_server_begin_at_once(
    fleet: Fleet, world: World, database: Database, database_url: str
) -> None:
    worker = await fleet.add("w1")
    options = Options(database_url, heartbeat_seconds=TICK)
    async with AsyncExitStack() as stack:
        async with open_runtime(options) as first:
            await leading(first)
            second = await stack.enter_async_context(open_runtime(options))
            task_id = TaskId((await first.writers.submit(a_job())).job_id, 0)
            await eventually(worker.running)
            worker.start(task_id)
        await leading(second)
        await worker.be_called(2)
        assert worker.running() == [str(task_id)], "it runs on"
        worker.succeed(task_id)
        await eventually(lambda: not worker.held)
    epochs = [call.epoch for call in worker.calls]
    assert epochs == sorted(epochs)
    assert (await world.task(task_id)).state == TaskState.SUCCEEDED
    await assert_audit_is_silent(database)


async def stood(leader: Leader) -> bool:
    """Let a server ask whether it may lead; True once it calls workers."""
    with suppress(LockTimeout):  # another one is in the middle of something
        await leader.stand()
    return leader.is_leading


async def test_a_leader_that_falls_silent_is_followed_when_its_term_is_over(
    fleet: Fleet, ledger: Ledger, world: World
) -> None:
    worker = await fleet.add("w1")
    lost = Leader(ledger, fleet.writers, Doorbells(), tick=TICK)
    following = Leader(ledger, fleet.writers, Doorbells(), tick=TICK)
    await eventually(lambda: stood(lost))
    await worker.be_called()
    # It calls, but does not renew its term any more.
    await world.clock.advance(4)
    assert not await stood(following)
    await world.clock.advance(7)
    await eventually(lambda: stood(following))
    await eventually(lambda: not lost.is_leading)
    assert not await stood(lost)
    received = worker.received
    await eventually(lambda: worker.received > received + 2)
    epochs = [call.epoch for call in worker.calls]
    assert epochs == sorted(epochs)
    await following.close()
    await lost.close()
    assert epochs[-1] == epochs[0] + 1


async def test_a_term_that_broke_off_goes_on_with_higher_numbers(
    fleet: Fleet, ledger: Ledger, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await fleet.add("w1")
    leader = Leader(ledger, fleet.writers, Doorbells(), tick=TICK)
    await eventually(lambda: stood(leader))
    await worker.be_called(3)
    await world.clock.fetch("alter table holdfast.workers rename to hidden")
    await eventually(lambda: not leader.is_leading)
    await world.clock.fetch("alter table holdfast.hidden rename to workers")
    await eventually(lambda: stood(leader))
    await worker.be_called(3)
    await leader.close()
    numbers = [(call.epoch, call.number) for call in worker.calls]
    assert numbers == sorted(set(numbers)), "the same epoch, and none of its numbers twice"
    assert len({call.epoch for call in worker.calls}) == 1
    # A heartbeat that was under way may have something to say, too.
    [record] = [record for record in caplog.records if record.name == "holdfast.leader"]
    assert (record.message, record.exc_info is not None) == ("the last term broke off", True)


async def test_a_pass_that_goes_wrong_does_not_keep_workers_from_being_called(
    fleet: Fleet, ledger: Ledger, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await fleet.add("w1")
    leader = Leader(ledger, fleet.writers, Doorbells(), tick=TICK)
    await eventually(lambda: stood(leader))
    await world.clock.fetch("alter table holdfast.ready rename to hidden")
    await eventually(lambda: "place failed" in caplog.text)
    await worker.be_called(5)
    assert leader.is_leading
    await leader.close()


async def test_a_leader_closes_after_its_term_broke_off(
    fleet: Fleet, ledger: Ledger, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader(ledger, fleet.writers, Doorbells(), tick=TICK)
    await eventually(lambda: stood(leader))
    await world.clock.fetch("alter table holdfast.workers rename to hidden")
    await eventually(lambda: not leader.is_leading)
    await leader.close()
    assert "the last term broke off" in caplog.text
    await world.clock.fetch("alter table holdfast.hidden rename to workers")
    other = Leader(ledger, fleet.writers, Doorbells(), tick=TICK)
    await eventually(lambda: stood(other))
    await other.close()


async def test_closing_twice_or_without_ever_leading_is_harmless(
    fleet: Fleet, ledger: Ledger
) -> None:
    leader = Leader(ledger, fleet.writers, Doorbells(), tick=TICK)
    await leader.close()
    await eventually(lambda: stood(leader))
    await leader.close()
    assert await lead(ledger, "the next one") is not None, "nobody waits for the term to run out"
    await leader.close()
    assert not leader.is_leading


async def test_a_leader_without_a_database_gives_up_its_term_all_the_same(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Database(database_url) as database:
        ledger = Ledger(database)
        leader = Leader(ledger, Writers(ledger), Doorbells(), tick=TICK)
        await eventually(lambda: stood(leader))
    await leader.close()
    assert "the term runs out by itself" in caplog.text


async def test_an_adopted_attempt_is_heard_of_at_once(
    fleet: Fleet, world: World, database: Database, database_url: str
) -> None:
    """A worker that was restarted is called as soon as it has registered."""
    worker = await fleet.add("w1")
    async with open_runtime(Options(database_url, heartbeat_seconds=HOUR)) as server:
        task_id = TaskId((await server.writers.submit(a_job())).job_id, 0)
        await eventually(worker.running)
        held = worker.held[str(task_id), 0]
        await fleet.vanish(worker)
        fence = Fence(task_id, 0, held.token)
        heir = await fleet.add("w2", host="host-w1", replaces="w1", adopts=(fence,))
        heir.held = worker.held
        server.hint("w2")
        await eventually(lambda: heir.received)
        heir.succeed(task_id)
        server.hint("w2")
        await eventually(lambda: not heir.held)
    task = await world.task(task_id)
    assert (task.state, task.preemption_count) == (TaskState.SUCCEEDED, 0)
    await assert_audit_is_silent(database)


async def test_hints_to_a_server_that_does_not_lead_are_passed_on(
    ledger: Ledger, database: Database
) -> None:
    post = Post()
    runtime = Runtime(ledger, database, WakeUps(Doorbells(), [post]))
    runtime.hint("w1")
    await runtime.wake_ups.close()
    assert post.sent == ["!w1"]
    runtime.hear_elsewhere("!w1")
    assert not runtime.leader.is_leading
