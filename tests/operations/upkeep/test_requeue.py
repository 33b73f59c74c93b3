"""Time passes: what waits becomes ready, and what was ready for too long is given up."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.limits.shares import ShareRule
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.queues import pause_queue
from holdfast.operations.sharing.lines import sort_shares
from holdfast.operations.sharing.rules import set_share_rule
from holdfast.operations.upkeep.requeue import Due, Lines, give_up_scheduling, requeue_due
from holdfast.store.database import Database
from tests.databases import connect
from tests.world import World

SUBMIT_FOR_ANN = """select holdfast.submit(
    '{"entrypoint": {"function": "app:work"}, "queue": "q", "owner": "ann"}')"""


async def test_a_retry_becomes_ready_when_its_backoff_is_over(ledger: Ledger, world: World) -> None:
    await world.submit(max_retries_failure=1, backoff={"base": 10.0})
    [mine] = await world.claim()
    await world.fail(mine)
    await world.clock.advance(4.9)
    assert await requeue_due(ledger) == 0
    await world.clock.advance(10.2)
    assert await requeue_due(ledger) == 1
    assert await requeue_due(ledger) == 0
    assert (await world.claim())[0].attempt == 1


async def test_backoff_grows_with_the_count_and_stays_within_its_jitter(world: World) -> None:
    job_id = await world.submit(
        max_retries_failure=3, backoff={"base": 10.0, "factor": 3.0, "ceiling": 40.0}
    )
    for wait in (10.0, 30.0, 40.0):
        [mine] = await world.claim()
        await world.fail(mine)
        [row] = await world.clock.fetch(
            "select extract(epoch from eligible_at - moved_at)::float8 from holdfast.tasks"
        )
        assert wait * 0.5 <= row[0] <= wait * 1.5
        await world.pass_time(wait * 1.5 + 1)
    assert (await world.task(TaskId(job_id, 0))).failure_count == 3


async def test_a_batch_is_bounded(ledger: Ledger, world: World) -> None:
    [now] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8 + 5")
    await world.submit(replicas=5, not_before=now[0])
    await world.clock.advance(6)
    assert [await requeue_due(ledger, 2) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.parametrize("batch_max", [10, 1])
async def test_an_open_submission_to_a_share_keeps_no_other_task_waiting(
    ledger: Ledger, world: World, direct_url: str, batch_max: int
) -> None:
    await set_share_rule(ledger, "q", ShareRule("owner"), actor="eve")
    while await sort_shares(ledger):
        pass
    [now] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8")
    mine = await world.submit(owner="ann", not_before=now[0] + 5)
    other = await world.submit(owner="bob", queue="other", not_before=now[0] + 6)
    await world.clock.advance(10)
    due = Due(ledger)
    user = await connect(direct_url)
    try:
        async with user.transaction():
            await user.execute(SUBMIT_FOR_ANN)
            # In a batch of one, what is held is the first each time, until it is put off.
            turns = [await due.requeue(batch_max=batch_max) for _ in range(5)]
            assert sum(turns) == 1
            assert [claim.task_id.job_id for claim in await world.claim(queue="other")] == [other]
    finally:
        await user.close()
    assert await requeue_due(ledger) == 1
    assert {claim.task_id.job_id for claim in await world.claim(9)} == {mine, other + 1}


async def test_a_task_that_nobody_takes_in_time_is_unschedulable(world: World) -> None:
    job_id = await world.submit(scheduling_timeout=20.0)
    await world.pass_time(15)
    assert await world.job_state(job_id) == TaskState.PENDING
    await world.pass_time(10)
    task = await world.task(TaskId(job_id, 0))
    assert (task.state, task.finished) == (TaskState.UNSCHEDULABLE, True)
    assert await world.job_state(job_id) == TaskState.UNSCHEDULABLE
    assert await world.story(job_id) == ["unschedulable"]
    assert await world.claim() == []
    lacks = "no worker took it within its scheduling timeout of 20 s: no worker serves queue q"
    assert (await world.job(job_id))["error"] == lacks
    query = "select cause from holdfast.events where job_id = $1 and type = 'unschedulable'"
    # Of the task, and of its job.
    assert [row["cause"] for row in await world.clock.fetch(query, job_id)] == [lacks] * 2


async def test_the_wait_for_a_worker_counts_anew_each_time_the_task_is_eligible(
    world: World,
) -> None:
    job_id = await world.submit(
        scheduling_timeout=20.0, max_retries_failure=1, backoff={"base": 8.0}
    )
    await world.pass_time(15)
    [mine] = await world.claim()
    await world.fail(mine)
    await world.pass_time(20)
    assert (await world.task(mine.task_id)).state == TaskState.PENDING
    await world.pass_time(20)
    assert (await world.task(TaskId(job_id, 0))).state == TaskState.UNSCHEDULABLE


async def test_the_wait_counts_from_the_release_of_a_lease_that_was_slow_to_end(
    world: World,
) -> None:
    await world.submit(
        scheduling_timeout=20.0, timeout=10.0, max_retries_failure=1, lease=120.0,
        backoff={"base": 0.0},
    )  # fmt: skip
    [mine] = await world.claim()
    await world.start(mine)
    await world.pass_time(60)
    await world.complete(mine, "killed")
    await world.pass_time(15)
    assert (await world.task(mine.task_id)).state == TaskState.PENDING
    await world.pass_time(10)
    assert (await world.task(mine.task_id)).state == TaskState.UNSCHEDULABLE


async def test_a_delayed_task_waits_for_a_worker_from_its_start_time_on(world: World) -> None:
    [now] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8 + 30")
    job_id = await world.submit(scheduling_timeout=20.0, not_before=now[0])
    await world.pass_time(45)
    assert await world.job_state(job_id) == TaskState.PENDING
    await world.pass_time(15)
    assert await world.job_state(job_id) == TaskState.UNSCHEDULABLE


async def test_a_cancelled_task_is_not_given_up_as_well(
    ledger: Ledger, world: World, database: Database
) -> None:
    job_id = await world.submit(scheduling_timeout=20.0)
    async with database.transaction() as holder:  # so that the cancel leaves its row in line
        await holder.connection.execute("select from holdfast.ready for update")
        await world.cancel_job(job_id)
    await world.clock.advance(30)
    assert await give_up_scheduling(ledger) == 0
    assert (await world.task(TaskId(job_id, 0))).state == TaskState.KILLED


async def test_an_unschedulable_replica_ends_the_whole_job(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=2, scheduling_timeout=20.0)
    [mine] = await world.claim()
    await pause_queue(ledger, "q", actor="operator")
    await world.pass_time(25)
    assert await world.job_state(job_id) == TaskState.UNSCHEDULABLE
    assert (await world.job(job_id))["error"].endswith(": queue q is paused by operator")
    assert (await world.task(mine.task_id)).state == TaskState.KILLED
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]


async def test_an_unschedulable_input_does_not_stop_the_others(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2], scheduling_timeout=20.0)
    [mine] = await world.claim()
    await world.pass_time(25)
    assert await world.job_state(job_id) == TaskState.RUNNING
    await world.succeed(mine)
    assert await world.job_state(job_id) == TaskState.UNSCHEDULABLE


async def test_placed_work_is_given_up_too(world: World) -> None:
    job_id = await world.submit(queue=None, scheduling_timeout=20.0)
    await world.pass_time(25)
    assert await world.job_state(job_id) == TaskState.UNSCHEDULABLE


async def test_what_a_cancel_could_not_take_out_of_line_is_cleared_away_later(
    ledger: Ledger, world: World, database: Database
) -> None:
    job_id = await world.submit(queue="unserved")
    async with database.transaction() as holder:
        await holder.connection.execute("select from holdfast.ready for update")
        await world.cancel_job(job_id)
    assert await world.count("ready") == 1
    live = await world.submit()
    lines = Lines(ledger, queues_max=1)
    assert [await lines.clear() for _ in range(3)] == [True, True, False], "a queue a turn"
    assert await world.count("ready") == 1
    assert [claim.task_id.job_id for claim in await world.claim(9)] == [live]


async def test_a_reason_that_cannot_be_found_holds_nothing_up(
    ledger: Ledger, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    placed = await world.submit(queue=None, scheduling_timeout=20.0)
    queued = await world.submit(scheduling_timeout=20.0)

    async def fail(_: int) -> str | None:
        raise RuntimeError("no look at the fleet")

    await world.clock.advance(21)
    assert await give_up_scheduling(ledger, find_lacks=fail) == 2
    for job_id in (placed, queued):
        assert await world.job_state(job_id) == TaskState.UNSCHEDULABLE
    assert f"why job {placed} waits" in caplog.text
