"""What runs out of time: leases, runs, and the grace of a cancel; and what an outage forgives."""

from datetime import timedelta

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.reap import read_outage, reap
from holdfast.rules.outage import is_free
from holdfast.store.database import Database
from tests.world import World


async def test_an_expired_lease_ends_the_attempt_and_costs_a_preemption(world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    await world.pass_time(35)
    task = await world.task(mine.task_id)
    assert (task.state, task.attempt, task.preemption_count) == (TaskState.PENDING, 1, 1)
    [attempt] = task.attempts
    assert (attempt["state"], attempt["error"]) == (TaskState.WORKER_FAILED, "lease expired")
    assert (attempt["stage"], attempt["released_at"] is None) == ("exec", False)
    assert await world.lease(mine.task_id) is None
    assert await world.story(job_id) == ["claimed", "started", "worker_failed", "retried"]


async def test_a_lease_that_has_not_run_out_is_left_alone(ledger: Ledger, world: World) -> None:
    await world.submit()
    await world.claim()
    await world.pass_time(25)
    assert await reap(ledger) == 0
    assert await world.count("leases") == 1


async def test_only_the_reaper_ends_a_lease_so_an_expired_one_may_complete(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.clock.advance(500)
    assert (await world.succeed(mine)).accepted


async def test_losses_beyond_the_budget_finish_the_task(world: World) -> None:
    job_id = await world.submit(max_retries_preemption=1, on_exhausted="fail")
    for _ in range(2):
        await world.claim()
        await world.pass_time(35)
    task = await world.task(TaskId(job_id, 0))
    assert (task.state, task.preemption_count) == (TaskState.WORKER_FAILED, 2)
    assert await world.job_state(job_id) == TaskState.WORKER_FAILED


async def test_a_dead_letter_knows_where_its_lost_attempt_was(world: World) -> None:
    await world.submit(max_retries_preemption=0)
    await world.claim()
    await world.pass_time(35)
    [letter] = await world.dead_letters()
    assert (letter.reason_code, letter.stage) == ("infrastructure_failure", "fetch")


async def test_the_second_loss_waits_for_its_backoff(world: World) -> None:
    await world.submit(backoff={"base": 100.0, "ceiling": 200.0})
    await world.claim()
    await world.pass_time(35)
    [again] = await world.claim()
    assert again.preemption_count == 1
    await world.pass_time(35)
    assert await world.claim() == []
    await world.pass_time(305)
    assert (await world.claim())[0].preemption_count == 2


async def test_after_an_outage_the_reaper_waits_and_then_charges_nothing(
    ledger: Ledger, world: World
) -> None:
    await world.submit(max_retries_preemption=0)
    [mine] = await world.claim()
    await world.clock.advance(120)
    assert await reap(ledger) == 0
    await world.pass_time(25)
    assert await world.lease(mine.task_id) is not None
    await world.pass_time(10)
    task = await world.task(mine.task_id)
    assert (task.state, task.preemption_count) == (TaskState.PENDING, 0)
    assert (await world.claim())[0].attempt == 1


async def test_a_worker_that_renews_after_an_outage_keeps_its_lease(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.clock.advance(120)
    await reap(ledger)
    await world.renew(mine)
    await world.pass_time(20)
    await world.renew(mine)
    await world.pass_time(20)
    assert (await world.succeed(mine)).accepted


async def test_a_lease_that_runs_out_after_the_wait_is_charged(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.clock.advance(20)
    await reap(ledger)
    await world.pass_time(20)
    await world.renew(mine)
    await world.pass_time(35)
    task = await world.task(mine.task_id)
    assert (task.state, task.preemption_count) == (TaskState.PENDING, 1)


async def test_a_gap_of_ten_seconds_is_no_outage(ledger: Ledger, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.pass_time(25)
    await world.clock.advance(9)
    assert await reap(ledger) == 1
    assert (await world.task(mine.task_id)).preemption_count == 1


async def test_a_timeout_that_fails_is_retried_once_released(world: World) -> None:
    job_id = await world.submit(timeout=10.0, max_retries_failure=1, backoff={"base": 0.0})
    [mine] = await world.claim()
    await world.report(mine, TaskState.BUILDING)
    await world.pass_time(11)
    task = await world.task(mine.task_id)
    assert (task.state, task.failure_count) == (TaskState.PENDING, 1)
    assert (task.attempts[0]["state"], task.attempts[0]["error_class"]) == (
        TaskState.FAILED, "Timeout",
    )  # fmt: skip
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]
    assert await world.claim() == []
    assert not (await world.complete(mine, "failed")).accepted
    [again] = await world.claim()
    assert (again.attempt, again.failure_count) == (1, 1)
    assert await world.story(job_id) == ["claimed", "building", "failed", "retried", "claimed"]


@pytest.mark.parametrize(
    ("state", "stage"), [(TaskState.BUILDING, "fetch"), (TaskState.RUNNING, "exec")]
)
@pytest.mark.parametrize("on_timeout", ["fail", "kill"])
async def test_a_timeout_has_the_stage_in_which_it_ran_out(
    world: World, state: TaskState, stage: str, on_timeout: str
) -> None:
    await world.submit(
        timeout=10.0, on_timeout=on_timeout, max_retries_failure=0, on_exhausted="dead_letter"
    )
    [mine] = await world.claim()
    await world.report(mine, state)
    await world.pass_time(11)
    [attempt] = (await world.task(mine.task_id)).attempts
    assert attempt["stage"] == stage
    letters = await world.clock.fetch("select stage from holdfast.dead_letters")
    assert [row["stage"] for row in letters] == ([stage] if on_timeout == "fail" else [])


async def test_a_timeout_that_kills_is_never_retried(world: World) -> None:
    job_id = await world.submit(timeout=10.0, on_timeout="kill", max_retries_failure=5)
    [mine] = await world.claim()
    await world.start(mine)
    await world.pass_time(11)
    task = await world.task(mine.task_id)
    assert (task.state, task.finished, task.failure_count) == (TaskState.KILLED, True, 0)
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]
    assert await world.job_state(job_id) == TaskState.KILLED
    assert (await world.job(job_id))["error"] is not None


async def test_an_input_killed_by_its_timeout_counts_as_failed(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2], timeout=10.0, on_timeout="kill")
    slow, quick = await world.claim(2)
    await world.start(slow)
    await world.succeed(quick)
    await world.pass_time(11)
    job = await world.job(job_id)
    assert (job["killed"], job["timed_out"], job["succeeded"]) == (1, 1, 1)
    assert job["state"] == TaskState.FAILED


async def test_an_assigned_attempt_has_no_run_time_yet(world: World) -> None:
    await world.submit(timeout=10.0)
    [mine] = await world.claim()
    await world.pass_time(25)
    assert (await world.task(mine.task_id)).state == TaskState.ASSIGNED


async def test_a_timeout_ends_a_run_even_while_the_reaper_waits(
    ledger: Ledger, world: World
) -> None:
    await world.submit(timeout=40.0, lease=120.0)
    [mine] = await world.claim()
    await world.start(mine)
    await world.clock.advance(60)
    assert await reap(ledger) == 1
    assert (await world.task(mine.task_id)).attempts[0]["error_class"] == "Timeout"


async def test_a_pass_is_bounded_and_the_next_goes_on(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=5)
    await world.claim(5)
    await world.pass_time(25)
    await world.clock.advance(6)
    assert [await reap(ledger, batch_max=2) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_second_server_leaves_the_pass_to_the_first(
    ledger: Ledger, world: World, database_url: str
) -> None:
    await world.submit()
    await world.claim()
    await world.pass_time(25)
    await world.clock.advance(6)
    async with Database(database_url) as other, other.transaction() as tx:
        await tx.connection.execute("select from holdfast.reaper for update")
        assert await reap(ledger) == 0
    assert await reap(ledger) == 1


async def test_a_report_knows_of_an_outage_before_the_reaper_has_passed(
    ledger: Ledger, world: World
) -> None:
    await reap(ledger)
    async with ledger.database.transaction() as tx:
        before = await tx.now()
    await world.clock.advance(70)
    async with ledger.database.transaction() as tx:
        watch, now = await read_outage(tx)
    assert now >= before + timedelta(seconds=70)
    assert is_free(watch, before + timedelta(seconds=60))
    assert not is_free(watch, before - timedelta(seconds=1))


async def test_without_an_outage_nothing_is_free(ledger: Ledger, world: World) -> None:
    await reap(ledger)
    await world.clock.advance(5)
    async with ledger.database.transaction() as tx:
        watch, now = await read_outage(tx)
    assert not is_free(watch, now - timedelta(seconds=1))
