"""Gangs in the ledger: siblings end with the first loss, at the price of one, and go one way."""

import asyncio
from functools import partial

import pytest

from holdfast.errors import LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending.attempts import add_siblings
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.gangs import LEASE, a_gang
from tests.waiting import insist
from tests.world import World

PENDING, SUCCEEDED, FAILED = TaskState.PENDING, TaskState.SUCCEEDED, TaskState.FAILED
KILLED, WORKER_FAILED, DEAD = TaskState.KILLED, TaskState.WORKER_FAILED, TaskState.DEAD_LETTERED


async def test_only_gangs_get_their_siblings_and_only_when_asked_for(
    ledger: Ledger, world: World
) -> None:
    plain = await world.submit(replicas=3)
    gang = await a_gang(world)
    wanted = [TaskId(gang.job_id, 1), TaskId(plain, 2), TaskId(999_999, 0)]
    async with ledger.database.transaction() as tx:
        found = await add_siblings(ledger, tx, wanted)
    whole = {TaskId(gang.job_id, index) for index in range(3)}
    assert found == {TaskId(plain, 2), *whole, TaskId(999_999, 0)}


@pytest.mark.parametrize(("status", "price"), [("failed", (1, 0)), ("worker_failed", (0, 1))])
async def test_one_loss_ends_the_siblings_and_restarts_all_at_the_price_of_one(
    world: World, database: Database, status: str, price: tuple[int, int]
) -> None:
    gang = await a_gang(world, max_retries_failure=1)
    await gang.place()
    assert await gang.complete(m1=status) == [True]
    assert await gang.states() == [PENDING] * 3
    assert await gang.spent() == price
    echo = (WORKER_FAILED, f"a sibling failed: {gang.job_id}.1")
    own = (FAILED if status == "failed" else WORKER_FAILED, "boom of m1")
    assert await gang.last_ends() == [echo, own, echo]
    assert [task.attempt for task in await gang.tasks()] == [1] * 3
    assert await world.job_state(gang.job_id) == TaskState.RUNNING
    assert (await world.job(gang.job_id))["error"] is None
    await assert_audit_is_silent(database)


async def test_the_one_that_spoke_is_released_and_its_siblings_are_ending(world: World) -> None:
    gang = await a_gang(world, max_retries_failure=1)
    await gang.place()
    await gang.complete(m0="failed")
    await world.run_chores()
    assert await gang.ending() == [1, 2]
    assert await gang.ready() == [0]
    await gang.confirm(1)
    assert await gang.ready() == [0, 1]
    await world.pass_time(LEASE + 1)
    assert await gang.ending() == []
    assert await gang.ready() == [0, 1, 2]


async def test_a_member_that_reports_after_the_round_was_decided_only_confirms(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_failure=1)
    await gang.place()
    await gang.complete(m0="failed")
    assert await gang.complete(m1="failed", m2="succeeded") == [False, False]
    assert await gang.spent() == (1, 0)
    assert await gang.ending() == []
    assert await gang.states() == [PENDING] * 3
    assert await gang.place() == [0, 1, 2]
    await gang.succeed(0, 1, 2)
    assert await world.job_state(gang.job_id) == SUCCEEDED
    await assert_audit_is_silent(database)


async def test_a_repeat_is_answered_as_the_first_time_and_a_stale_member_is_a_stranger(
    ledger: Ledger, world: World
) -> None:
    gang = await a_gang(world, max_retries_failure=1)
    await gang.place()
    old = dict(gang.fences)
    await gang.complete(m0="failed")
    assert await gang.complete(m0="failed") == [True]
    await gang.confirm(1, 2)
    await gang.place()
    repeat, stale = await complete(
        ledger, [Completion(old[0], "failed"), Completion(old[1], "failed")]
    )
    assert repeat == Completed(old[0].task_id, accepted=True)
    assert isinstance(stale, LeaseConflict)
    assert await gang.states() == [TaskState.ASSIGNED] * 3


async def test_failures_that_arrive_together_cost_one_and_each_keeps_its_error(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_failure=1)
    await gang.place()
    assert await gang.complete(m0="failed", m2="failed") == [True, True]
    assert await gang.spent() == (1, 0)
    assert await gang.ending() == [1]
    assert (await gang.last_ends())[2] == (FAILED, "boom of m2")
    await assert_audit_is_silent(database)


async def test_a_failure_is_charged_when_a_loss_arrives_with_it(world: World) -> None:
    gang = await a_gang(world, max_retries_failure=1)
    await gang.place()
    await gang.complete(m0="worker_failed", m1="failed")
    assert await gang.spent() == (1, 0)
    assert (await gang.last_ends())[0] == (WORKER_FAILED, "boom of m0")


async def test_a_success_that_arrives_with_a_failure_stays(world: World) -> None:
    gang = await a_gang(world, max_retries_failure=1)
    await gang.place()
    assert await gang.complete(m0="failed", m1="killed") == [True, True]
    await gang.confirm(2)
    await gang.place()
    await gang.report(Completion(gang.fences[0], "failed"), Completion(gang.fences[1], "succeeded"))
    assert await gang.states() == [FAILED, SUCCEEDED, WORKER_FAILED]


async def test_the_budget_is_the_sum_of_what_members_have_spent(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_failure=2)
    for culprit in range(2):
        await gang.place()
        await gang.complete(**{f"m{culprit}": "failed"})
        await gang.confirm(*(await gang.ending()))
    assert await gang.states() == [PENDING] * 3
    await gang.place()
    await gang.complete(m2="failed")
    assert [task.failure_count for task in await gang.tasks()] == [1, 1, 1]
    assert await gang.states() == [WORKER_FAILED, WORKER_FAILED, FAILED]
    assert all(task.finished for task in await gang.tasks())
    assert await world.job_state(gang.job_id) == FAILED
    await assert_audit_is_silent(database)


async def test_an_error_that_no_retry_mends_ends_the_gang_at_once(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_failure=5)
    await gang.place()
    await gang.report(
        Completion(gang.fences[0], "failed", error="flaky"),
        Completion(gang.fences[1], "failed", error="wrong", error_class="PermanentError"),
    )
    assert await gang.states() == [FAILED, FAILED, WORKER_FAILED]
    job = await world.job(gang.job_id)
    assert (job["state"], job["error"]) == (FAILED, "wrong")
    await assert_audit_is_silent(database)


async def test_a_gang_that_ends_for_good_keeps_no_host_and_tells_the_first_error(
    world: World, database: Database
) -> None:
    gang = await a_gang(world)
    await gang.place()
    await gang.complete(m2="failed")
    assert await gang.states() == [WORKER_FAILED, WORKER_FAILED, FAILED]
    assert await gang.ending() == [0, 1]
    await gang.confirm(0, 1)
    await world.run_chores()
    assert (await gang.ending(), await gang.ready()) == ([], [])
    job = await world.job(gang.job_id)
    assert (job["state"], job["error"]) == (FAILED, "boom of m2")
    assert await world.count("waiting") == 0
    await assert_audit_is_silent(database)


async def test_a_spent_preemption_budget_ends_the_job_as_worker_failed(world: World) -> None:
    gang = await a_gang(world, max_retries_preemption=0)
    await gang.place()
    await gang.complete(m1="worker_failed")
    assert await gang.states() == [WORKER_FAILED] * 3
    job = await world.job(gang.job_id)
    assert (job["state"], job["error"]) == (WORKER_FAILED, "boom of m1")


async def test_the_one_to_blame_becomes_the_dead_letter(
    ledger: Ledger, world: World, database: Database
) -> None:
    gang = await a_gang(world, on_exhausted="dead_letter")
    await gang.place()
    await gang.complete(m1="failed")
    assert await gang.states() == [WORKER_FAILED, DEAD, WORKER_FAILED]
    assert await world.job_state(gang.job_id) == DEAD
    [letter] = await world.dead_letters(job_id=gang.job_id)
    assert (letter.task_index, letter.reason_code) == (1, "exhausted_retries")
    await assert_audit_is_silent(database)


async def test_members_that_have_succeeded_stay_out_of_a_restart(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_preemption=1)
    await gang.place()
    await gang.succeed(0)
    await gang.complete(m1="worker_failed")
    assert await gang.states() == [SUCCEEDED, PENDING, PENDING]
    await gang.confirm(2)
    assert await gang.place() == [1, 2]
    await gang.succeed(1, 2)
    assert await world.job_state(gang.job_id) == SUCCEEDED
    await assert_audit_is_silent(database)


async def test_a_gang_draws_one_backoff_for_all_of_its_members(world: World) -> None:
    gang = await a_gang(world, max_retries_failure=2, backoff={"base": 100.0, "ceiling": 300.0})
    await gang.place()
    await gang.complete(m0="failed")
    rows = await world.clock.fetch("select distinct eligible_at from holdfast.waiting")
    assert len(rows) == 1


async def test_a_gang_that_is_handed_back_restarts_for_nothing(world: World) -> None:
    gang = await a_gang(world, max_retries_preemption=0)
    await gang.place()
    await gang.complete(m0="handed_back")
    assert await gang.states() == [PENDING] * 3
    assert await gang.spent() == (0, 0)


async def test_a_lease_that_runs_out_costs_the_gang_one_however_many_ran_out(
    world: World, database: Database
) -> None:
    gang = await a_gang(world)
    await gang.place()
    await world.pass_time(LEASE + 1)
    assert await gang.last_ends() == [(WORKER_FAILED, "lease expired")] * 3
    assert await gang.spent() == (0, 1)
    assert await gang.ready() == [0, 1, 2]
    await assert_audit_is_silent(database)


async def test_a_lost_host_ends_siblings_whose_leases_live(world: World) -> None:
    gang = await a_gang(world)
    await gang.place()
    await world.clock.fetch(
        "update holdfast.leases set expires_at = expires_at - interval '50 s' where task_index = 2"
    )
    await world.pass_time(15)
    echo = (WORKER_FAILED, f"a sibling failed: {gang.job_id}.2")
    assert await gang.last_ends() == [echo, echo, (WORKER_FAILED, "lease expired")]
    assert (await gang.ending(), await gang.spent()) == ([0, 1], (0, 1))


async def test_a_gang_that_no_worker_ever_named_is_lost_for_nothing_five_times(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_preemption=0)
    for _ in range(5):
        await gang.place(acknowledged=False)
        await world.pass_time(LEASE + 1)
        assert await gang.spent() == (0, 0)
        assert await gang.states() == [PENDING] * 3
    await gang.place(acknowledged=False)
    await world.pass_time(LEASE + 1)
    assert await gang.spent() == (0, 1)
    assert await world.job_state(gang.job_id) == WORKER_FAILED
    await assert_audit_is_silent(database)


async def test_a_timeout_that_fails_costs_one_and_leaves_every_lease_ending(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, timeout=10.0, on_timeout="fail", max_retries_failure=1)
    await gang.place()
    await world.clock.fetch(
        "update holdfast.leases set run_deadline_at = holdfast.now() + interval '10 s'"
    )
    await world.pass_time(11)
    assert [state for state, _ in await gang.last_ends()] == [FAILED] * 3
    assert (await gang.spent(), await gang.ending()) == ((1, 0), [0, 1, 2])
    await assert_audit_is_silent(database)


async def test_a_gang_that_is_cancelled_softly_follows_the_ordinary_rules(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_failure=5)
    await gang.place()
    await world.cancel_job(gang.job_id, "soft")
    await gang.complete(m0="failed")
    assert await gang.states() == [KILLED, TaskState.ASSIGNED, TaskState.ASSIGNED]
    await gang.succeed(1)
    await world.pass_time(31)
    assert await gang.states() == [KILLED, SUCCEEDED, KILLED]
    assert await gang.spent() == (0, 0)
    assert await world.job_state(gang.job_id) == KILLED
    await assert_audit_is_silent(database)


async def test_a_gang_whose_job_was_cancelled_hard_is_left_to_the_sweep(
    ledger: Ledger, world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_failure=5)
    await gang.place()
    await cancel_job(ledger, gang.job_id, "hard", actor="operator")
    await gang.complete(m0="failed")
    await gang.complete(m1="failed")
    assert await gang.states() == [FAILED, FAILED, TaskState.ASSIGNED]
    assert await gang.spent() == (1, 0)
    await assert_audit_is_silent(database)
    await world.run_chores()
    assert await gang.states() == [FAILED, FAILED, KILLED]
    await assert_audit_is_silent(database)


async def test_the_cancel_of_one_member_ends_the_whole_gang(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, max_retries_failure=5)
    await gang.place()
    await world.cancel_task(TaskId(gang.job_id, 0), "soft")
    await gang.complete(m1="failed")
    await world.run_chores()
    assert await gang.states() == [KILLED] * 3
    assert await world.job_state(gang.job_id) == KILLED
    await gang.confirm(0, 2)
    await assert_audit_is_silent(database)


async def test_members_that_fail_at_one_moment_cost_one_whoever_comes_first(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, replicas=8, max_retries_failure=1)
    await gang.place()
    failing = [partial(gang.complete, **{f"m{m}": "failed"}) for m in range(8)]
    answers = await asyncio.gather(*map(insist, failing))
    assert sum(accepted for [accepted] in answers) == 1
    assert await gang.spent() == (1, 0)
    assert (await gang.ending(), await gang.ready()) == ([], list(range(8)))
    await assert_audit_is_silent(database)


async def test_a_success_and_a_failure_at_one_moment_leave_a_whole_gang(
    world: World, database: Database
) -> None:
    gang = await a_gang(world, replicas=2, max_retries_failure=1)
    await gang.place()
    [[succeeded], _] = await asyncio.gather(
        insist(partial(gang.complete, m0="succeeded")), insist(partial(gang.complete, m1="failed"))
    )
    assert await gang.states() == [SUCCEEDED if succeeded else PENDING, PENDING]
    assert await gang.ending() == []
    await assert_audit_is_silent(database)
