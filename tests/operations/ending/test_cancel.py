"""Cancels: soft with a grace, hard at once; of one task or of a whole job."""

from typing import Any

import pytest

from holdfast.errors import Invalid, LeaseConflict, NotFound
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.follow_up import follow_up, follow_up_all
from tests.world import World

KILLED, SUCCEEDED = TaskState.KILLED, TaskState.SUCCEEDED


async def running(world: World, **fields: Any) -> Claim:
    """Submit one task and start it."""
    await world.submit(**fields)
    [mine] = await world.claim()
    await world.start(mine)
    return mine


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_task_that_has_not_begun_is_killed_at_once(world: World, mode: str) -> None:
    job_id = await world.submit()
    assert await world.cancel_task(TaskId(job_id, 0), mode)
    assert (await world.task(TaskId(job_id, 0))).state == KILLED
    assert await world.story(job_id) == ["killed"]
    assert await world.job_state(job_id) == KILLED
    assert await world.story(job_id, -1) == ["submitted", "killed"]


async def test_a_task_that_waits_for_its_retry_is_killed_at_once(world: World) -> None:
    mine = await running(world, max_retries_failure=1)
    await world.fail(mine)
    assert await world.cancel_task(mine.task_id, "soft")
    task = await world.task(mine.task_id)
    assert (task.state, task.failure_count, task.attempt) == (KILLED, 1, 1)
    assert await world.count("waiting") == 0


async def test_hard_ends_the_attempt_at_once_and_its_lease_is_ending(world: World) -> None:
    mine = await running(world)
    assert await world.cancel_task(mine.task_id, "hard")
    task = await world.task(mine.task_id)
    assert (task.state, task.attempts[0]["state"]) == (KILLED, KILLED)
    assert task.attempts[0]["released_at"] is None
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]
    assert not (await world.succeed(mine)).accepted
    assert (await world.task(mine.task_id)).state == KILLED
    with pytest.raises(LeaseConflict):
        await world.succeed(mine)


async def test_soft_leaves_the_task_running_and_success_within_grace_counts(world: World) -> None:
    mine = await running(world, grace=20.0)
    assert await world.cancel_task(mine.task_id, "soft")
    assert (await world.task(mine.task_id)).state == TaskState.RUNNING
    await world.pass_time(15)
    assert (await world.succeed(mine)).accepted
    assert (await world.task(mine.task_id)).state == SUCCEEDED


@pytest.mark.parametrize("status", ["failed", "killed", "worker_failed", "handed_back"])
async def test_any_other_end_after_a_soft_cancel_is_killed_and_charges_nothing(
    world: World, status: str
) -> None:
    mine = await running(world, max_retries_failure=3)
    await world.cancel_task(mine.task_id, "soft")
    assert (await world.complete(mine, status, exit_code=143, error="on signal")).accepted
    task = await world.task(mine.task_id)
    assert (task.state, task.finished) == (KILLED, True)
    assert (task.failure_count, task.preemption_count) == (0, 0)
    assert task.attempts[0]["error"] is not None
    if status in ("failed", "killed"):
        assert (task.attempts[0]["exit_code"], task.attempts[0]["error"]) == (143, "on signal")
    assert await world.lease(mine.task_id) is None


async def test_a_soft_cancel_of_a_job_kills_what_ends_before_the_sweep_too(
    ledger: Ledger, world: World
) -> None:
    mine = await running(world, max_retries_failure=3)
    await cancel_job(ledger, mine.task_id.job_id, "soft", actor="operator", reason="enough")
    await world.complete(mine, "failed", exit_code=1, error="boom")
    task = await world.task(mine.task_id)
    assert (task.state, task.failure_count) == (KILLED, 0)
    assert (await world.job(mine.task_id.job_id))["error"] == "enough"


async def test_an_attempt_that_ends_before_a_hard_sweep_keeps_its_outcome(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=2, max_retries_failure=3, max_task_failures=2)
    mine, other = await world.claim(2)
    await cancel_job(ledger, job_id, "hard", actor="operator")
    await world.fail(mine)
    await world.succeed(other)
    task = await world.task(mine.task_id)
    assert (task.state, task.finished, task.failure_count) == (TaskState.FAILED, True, 1)
    assert await follow_up_all(ledger) > 0
    assert (await world.task(other.task_id)).state == SUCCEEDED


async def test_when_grace_is_over_the_task_is_killed_and_its_lease_is_ending(
    world: World,
) -> None:
    mine = await running(world, grace=20.0, lease=120.0)
    await world.cancel_task(mine.task_id, "soft")
    await world.pass_time(25)
    task = await world.task(mine.task_id)
    assert (task.state, task.attempts[0]["state"]) == (KILLED, KILLED)
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]
    assert not (await world.succeed(mine)).accepted


async def test_a_lease_that_runs_out_during_a_soft_cancel_ends_killed(world: World) -> None:
    mine = await running(world, grace=300.0, lease=30.0)
    await world.cancel_task(mine.task_id, "soft")
    await world.pass_time(35)
    task = await world.task(mine.task_id)
    assert (task.state, task.finished, task.preemption_count) == (KILLED, True, 0)
    assert task.attempts[0]["error"] == "lease expired"
    assert await world.lease(mine.task_id) is None


async def test_cancelling_twice_is_answered_and_changes_nothing(world: World) -> None:
    mine = await running(world)
    assert await world.cancel_task(mine.task_id, "soft")
    before = await world.dump()
    await world.clock.advance(5)
    assert not await world.cancel_task(mine.task_id, "soft")
    assert await world.dump() == before
    assert await world.cancel_task(mine.task_id, "hard")
    before = await world.dump()
    assert not await world.cancel_task(mine.task_id, "hard")
    assert not await world.cancel_task(mine.task_id, "soft")
    assert await world.dump() == before


async def test_a_soft_cancelled_job_may_still_be_cancelled_hard_but_not_softer(
    world: World,
) -> None:
    mine = await running(world)
    job_id = mine.task_id.job_id
    assert await world.cancel_job(job_id, "soft")
    assert not await world.cancel_job(job_id, "soft")
    assert await world.cancel_job(job_id, "hard")
    assert await world.job_state(job_id) == KILLED
    assert not await world.cancel_job(job_id, "hard")
    assert await world.story(job_id, -1) == [
        "submitted", "started", "cancel_requested", "cancel_requested", "killed",
    ]  # fmt: skip


async def test_a_hard_cancelled_job_cannot_be_made_soft(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=2)
    assert await cancel_job(ledger, job_id, "hard", actor="operator")
    assert not await cancel_job(ledger, job_id, "soft", actor="operator")
    assert (await world.job(job_id))["cancel_mode"] == "hard"


async def test_a_finished_job_cannot_be_cancelled(world: World) -> None:
    mine = await running(world)
    await world.succeed(mine)
    before = await world.dump()
    assert not await world.cancel_job(mine.task_id.job_id)
    assert not await world.cancel_task(mine.task_id)
    assert await world.dump() == before


async def test_a_soft_cancelled_job_gives_everyone_their_grace(world: World) -> None:
    job_id = await world.submit(replicas=3, grace=60.0, lease=120.0)
    first, second = await world.claim(2)
    await world.cancel_job(job_id, "soft")
    assert (await world.task(TaskId(job_id, 2))).state == KILLED
    await world.complete(first, "failed", error="interrupted")
    assert await world.job_state(job_id) == TaskState.RUNNING
    assert (await world.task(second.task_id)).state == TaskState.ASSIGNED
    assert (await world.succeed(second)).accepted
    assert await world.job_state(job_id) == KILLED


async def test_a_job_whose_tasks_all_succeed_within_grace_has_succeeded(world: World) -> None:
    mine = await running(world)
    job_id = mine.task_id.job_id
    await world.cancel_job(job_id, "soft")
    await world.succeed(mine)
    assert await world.job_state(job_id) == SUCCEEDED


async def test_a_hard_cancelled_job_is_killed_with_its_running_tasks(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2, 3])
    done, mine = await world.claim(2)
    await world.succeed(done)
    await world.cancel_job(job_id, "hard")
    job = await world.job(job_id)
    assert (job["state"], job["succeeded"], job["killed"]) == (KILLED, 1, 2)
    assert job["error"] == "cancelled"
    assert (await world.lease(mine.task_id))["ending"]  # type: ignore[index]


async def test_one_killed_replica_kills_the_job(world: World) -> None:
    job_id = await world.submit(replicas=3)
    first, second = await world.claim(2)
    await world.cancel_task(first.task_id)
    assert await world.job_state(job_id) == KILLED
    await follow_up_all(world.ledger)
    assert (await world.task(second.task_id)).state == KILLED
    assert (await world.task(TaskId(job_id, 2))).state == KILLED


async def test_one_killed_input_just_counts_as_finished(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2])
    first, second = await world.claim(2)
    await world.cancel_task(first.task_id)
    assert await world.job_state(job_id) == TaskState.RUNNING
    await world.succeed(second)
    job = await world.job(job_id)
    assert (job["state"], job["killed"], job["succeeded"]) == (SUCCEEDED, 1, 1)


async def test_inputs_that_were_all_killed_kill_the_job(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2])
    for index in range(2):
        await world.cancel_task(TaskId(job_id, index))
    assert await world.job_state(job_id) == KILLED


async def test_a_large_job_is_killed_a_thousand_tasks_at_a_time(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(inputs=list(range(3_000)))
    claims = await world.claim(2)
    await cancel_job(ledger, job_id, "soft", actor="operator")
    killed = []
    for _ in range(3):
        # A server that dies here leaves the outbox row behind; the next one goes on from it.
        assert await world.count("outbox") == 1
        await follow_up(Ledger(ledger.database))
        killed.append((await world.job(job_id))["killed"])
    assert killed == [998, 1998, 2998]
    assert await world.count("outbox") == 0
    for mine in claims:
        await world.complete(mine, "killed")
    assert await world.job_state(job_id) == KILLED
    [events] = await world.clock.fetch("select count(*) from holdfast.events where type = 'killed'")
    assert events[0] == 3_001


async def test_a_hard_cancel_of_a_large_job_ends_it_with_the_first_chunk(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=2_500)
    await cancel_job(ledger, job_id, "hard", actor="operator")
    await follow_up(ledger)
    job = await world.job(job_id)
    assert (job["state"], job["killed"], job["pending"]) == (KILLED, 1_000, 1_500)
    assert await world.claim(5) == []
    await follow_up_all(ledger)
    job = await world.job(job_id)
    assert (job["state"], job["killed"], job["pending"]) == (KILLED, 2_500, 0)


async def test_bad_words_and_unknown_ids_change_nothing(ledger: Ledger, world: World) -> None:
    job_id = await world.submit()
    before = await world.dump()
    wrong: Any = "gently"
    bad: list[tuple[str, int, dict[str, Any]]] = [
        ("job_id", 0, {}),
        ("job_id", 2**63, {}),
        ("mode", job_id, {"mode": wrong}),
        ("actor", job_id, {"actor": "a\x00"}),
        ("reason", job_id, {"reason": "\x00"}),
        ("reason", job_id, {"reason": "x" * 1025}),
    ]
    for field, number, words in bad:
        arguments = {"mode": "hard", "actor": "operator"} | words
        with pytest.raises(Invalid) as refused:
            await cancel_job(ledger, number, arguments.pop("mode"), **arguments)
        assert refused.value.field == field
    with pytest.raises(Invalid, match="task_id"):
        await cancel_task(ledger, TaskId(job_id, -1), "hard", actor="operator")
    with pytest.raises(NotFound):
        await cancel_job(ledger, 10**6, "hard", actor="operator")
    with pytest.raises(NotFound):
        await cancel_task(ledger, TaskId(job_id, 7), "hard", actor="operator")
    assert await world.dump() == before
