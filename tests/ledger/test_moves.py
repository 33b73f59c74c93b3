"""Job states follow from counts, in the transaction that moved the tasks."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.moves import Moves, apply_moves
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.follow_up import follow_up_all
from holdfast.store.database import JobChanged
from tests.world import World

FAILED, KILLED = TaskState.FAILED, TaskState.KILLED
PENDING, ASSIGNED = TaskState.PENDING, TaskState.ASSIGNED


async def counts(world: World, job_id: int) -> dict[str, int]:
    """Read a job's counts, without the zeros."""
    job = await world.job(job_id)
    names = [state.name.lower() for state in TaskState]
    return {name: job[name] for name in names if job[name]}


async def test_a_job_is_running_from_its_first_claim_on_even_while_it_waits(
    world: World,
) -> None:
    job_id = await world.submit(max_retries_failure=1)
    assert await world.job_state(job_id) == PENDING
    [mine] = await world.claim()
    assert await world.job_state(job_id) == TaskState.RUNNING
    await world.fail(mine)
    assert await counts(world, job_id) == {"pending": 1}
    assert await world.job_state(job_id) == TaskState.RUNNING
    assert await world.story(job_id, -1) == ["submitted", "started"]


async def test_counts_follow_every_move(world: World) -> None:
    job_id = await world.submit(inputs=list(range(5)), on_exhausted="fail")
    claims = await world.claim(4)
    await world.report(claims[1], TaskState.BUILDING)
    await world.start(claims[2])
    await world.succeed(claims[3])
    assert await counts(world, job_id) == {
        "pending": 1, "assigned": 1, "building": 1, "running": 1, "succeeded": 1,
    }  # fmt: skip


async def test_a_replica_that_failed_for_good_ends_the_job_and_its_siblings(world: World) -> None:
    job_id = await world.submit(replicas=3, on_exhausted="fail")
    first, second = await world.claim(2)
    await world.start(second)
    await world.complete(first, "failed", exit_code=7, error="the first error")
    job = await world.job(job_id)
    assert (job["state"], job["error"], job["exit_code"]) == (FAILED, "the first error", 7)
    assert await world.claim() == []
    await follow_up_all(world.ledger)
    assert await counts(world, job_id) == {"failed": 1, "killed": 2}
    assert (await world.lease(second.task_id))["ending"]  # type: ignore[index]
    assert (await world.job(job_id))["error"] == "the first error"
    assert await world.story(job_id, -1) == ["submitted", "started", "failed"]


async def test_what_ends_between_the_jobs_end_and_the_sweep_keeps_its_outcome(
    world: World,
) -> None:
    job_id = await world.submit(replicas=3, on_exhausted="fail", max_retries_failure=1)
    first, second, third = await world.claim(3)
    await world.fail(first, "PermanentError")
    assert await world.job_state(job_id) == FAILED
    await world.succeed(second)
    await world.fail(third)
    await follow_up_all(world.ledger)
    assert await counts(world, job_id) == {"succeeded": 1, "failed": 2}
    assert (await world.task(third.task_id)).attempt == 0
    assert await world.job_state(job_id) == FAILED


async def test_failures_within_the_tolerance_are_success_and_are_counted(world: World) -> None:
    job_id = await world.submit(replicas=3, max_task_failures=1, on_exhausted="fail")
    first, second, third = await world.claim(3)
    await world.fail(first)
    assert await world.job_state(job_id) == TaskState.RUNNING
    await world.succeed(second)
    await world.succeed(third)
    assert await world.job_state(job_id) == TaskState.SUCCEEDED
    assert await counts(world, job_id) == {"succeeded": 2, "failed": 1}


async def test_one_bad_input_never_stops_the_others(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2, 3])
    first, second, third = await world.claim(3)
    await world.fail(first)
    assert await world.job_state(job_id) == TaskState.RUNNING
    await world.succeed(second)
    await world.succeed(third)
    assert await world.job_state(job_id) == TaskState.DEAD_LETTERED
    assert await counts(world, job_id) == {"succeeded": 2, "dead_lettered": 1}


async def test_inputs_with_a_tolerance_stop_when_it_is_exceeded(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2, 3], max_task_failures=0, on_exhausted="fail")
    first, _ = await world.claim(2)
    await world.fail(first)
    assert await world.job_state(job_id) == FAILED
    await follow_up_all(world.ledger)
    assert await counts(world, job_id) == {"failed": 1, "killed": 2}


async def test_the_jobs_error_is_that_of_the_task_that_failed_first(world: World) -> None:
    job_id = await world.submit(inputs=[1, 2], on_exhausted="fail")
    first, second = await world.claim(2)
    await world.complete(second, "failed", error="second task, first in time", exit_code=2)
    await world.clock.advance(1)
    await world.complete(first, "failed", error="first task, second in time", exit_code=3)
    job = await world.job(job_id)
    assert (job["error"], job["exit_code"]) == ("second task, first in time", 2)


async def test_preemptions_that_finish_a_task_end_the_job_as_worker_failed(world: World) -> None:
    job_id = await world.submit(replicas=2, max_retries_preemption=0, on_exhausted="fail")
    first, second = await world.claim(2)
    await world.complete(first, "worker_failed")
    assert await world.job_state(job_id) == TaskState.RUNNING
    await world.succeed(second)
    assert await world.job_state(job_id) == TaskState.WORKER_FAILED


async def test_jobs_without_moves_are_left_alone(ledger: Ledger, world: World) -> None:
    await world.submit()
    before = await world.dump()
    async with ledger.database.transaction() as tx:
        assert not Moves()
        assert await apply_moves(tx, Moves()) == []
    assert await world.dump() == before


async def test_moves_list_jobs_in_the_order_of_their_locks() -> None:
    moves = Moves()
    for job_id in (3, 1, 2):
        moves.add(job_id, PENDING, ASSIGNED)
    assert [job_id for job_id, _ in moves.jobs()] == [1, 2, 3]


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_job_that_was_flagged_meanwhile_refuses_what_needs_it_live(
    ledger: Ledger, world: World, mode: str
) -> None:
    job_id = await world.submit(replicas=2)
    await cancel_job(ledger, job_id, mode, actor="operator")  # type: ignore[arg-type]
    moves = Moves()
    moves.add(job_id, PENDING, ASSIGNED)
    moves.require_live(job_id)
    before = await world.dump()
    with pytest.raises(JobChanged):
        async with ledger.database.transaction() as tx:
            await apply_moves(tx, moves)
    assert await world.dump() == before


async def test_a_job_without_its_row_is_a_broken_invariant(ledger: Ledger) -> None:
    moves = Moves()
    moves.add(10**6, PENDING, ASSIGNED)
    with pytest.raises(AssertionError):
        async with ledger.database.transaction() as tx:
            await apply_moves(tx, moves)


async def test_two_jobs_end_in_one_transaction_each_by_its_own_rule(world: World) -> None:
    good = await world.submit()
    bad = await world.submit(on_exhausted="fail")
    claims: list[Claim] = await world.claim(2)
    await world.succeed(claims[0])
    await world.fail(claims[1])
    states = [await world.job_state(job_id) for job_id in (good, bad)]
    assert states == [TaskState.SUCCEEDED, FAILED]
    assert (await world.task(TaskId(bad, 0))).finished
