"""Ends and the next claim in one transaction; each half is answered as it would be alone."""

from typing import Any

from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.datasets import OutputEntry
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import Status
from holdfast.model.work.states import JobState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.claiming.complete_and_claim import Turn, TurnAnswer, complete_and_claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completed, Completion
from holdfast.operations.register import Registration, register
from tests.audits import assert_audit_is_silent
from tests.world import World, fence_of

NEXT = ClaimRequest("w1", ("q",), start=True)


def end_of(mine: Claim, status: Status = "succeeded", **fields: Any) -> Completion:
    """Say how an attempt ended."""
    return Completion(fence_of(mine), status, **fields)


def claimed(answer: TurnAnswer) -> list[TaskId]:
    """List what a turn was given."""
    assert isinstance(answer.claimed, list), answer.claimed
    return [mine.task_id for mine in answer.claimed]


async def transactions(world: World, job_id: int) -> list[int]:
    """Count the events of each transaction that has moved a job's tasks."""
    rows = await world.clock.fetch(
        "select count(*) from holdfast.events where job_id = $1 and task_index >= 0 "
        "group by txid order by min(id)",
        job_id,
    )
    return [row[0] for row in rows]


async def test_an_end_and_the_next_claim_are_one_transaction(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=2)
    [first] = await world.claim()
    await world.start(first)
    [answer] = await complete_and_claim(ledger, [Turn((end_of(first),), NEXT)])
    assert answer.completed == [Completed(first.task_id, accepted=True)]
    assert claimed(answer) == [TaskId(job_id, 1)]
    assert await transactions(world, job_id) == [1, 1, 3]
    job = await world.job(job_id)
    assert (job["pending"], job["running"], job["succeeded"]) == (0, 1, 1)
    await assert_audit_is_silent(ledger.database)


async def test_the_last_end_of_a_job_ends_it_and_the_next_job_begins(
    ledger: Ledger, world: World
) -> None:
    old, new = await world.submit(), await world.submit()
    [first] = await world.claim()
    await world.start(first)
    [answer] = await complete_and_claim(ledger, [Turn((end_of(first),), NEXT)])
    assert claimed(answer) == [TaskId(new, 0)]
    assert await world.job_state(old) == JobState.SUCCEEDED
    assert await world.job_state(new) == JobState.RUNNING
    await assert_audit_is_silent(ledger.database)


async def test_what_fails_and_is_due_at_once_may_be_claimed_in_the_same_turn(
    ledger: Ledger, world: World
) -> None:
    await world.submit(backoff={"base": 0.0}, max_retries_failure=1)
    [first] = await world.claim()
    [answer] = await complete_and_claim(ledger, [Turn((end_of(first, "failed"),), NEXT)])
    assert claimed(answer) == [first.task_id]
    await assert_audit_is_silent(ledger.database)


async def test_of_a_job_that_a_turn_ends_nothing_is_claimed_in_it(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=3, max_retries_failure=0)
    other = await world.submit()
    [first] = await world.claim()
    [answer] = await complete_and_claim(ledger, [Turn((end_of(first, "failed"),), NEXT)])
    assert answer.completed == [Completed(first.task_id, accepted=True)]
    assert await world.job_state(job_id) == JobState.DEAD_LETTERED
    assert claimed(answer) == [TaskId(other, 0)]
    await assert_audit_is_silent(ledger.database)


async def test_a_turn_of_many_workers_is_answered_to_each(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=6, max_task_failures=1)
    other = await world.submit(queue="other")
    mine, theirs, strange = await world.claim(3)
    bad = ClaimRequest("w4", ("q",), max_tasks=0)
    answers = await complete_and_claim(
        ledger,
        [
            Turn((end_of(mine), end_of(mine)), NEXT),
            Turn((end_of(theirs, "failed", error="x"),), ClaimRequest("w2", ("other",))),
            Turn((end_of(strange._replace(attempt=7)), end_of(strange, exit_code=3))),
            Turn((), ClaimRequest("w3", ("q",), max_tasks=2)),
            Turn((), bad),
        ],
    )
    accepted = [Completed(mine.task_id, accepted=True)] * 2
    assert answers[0].completed == accepted
    assert len(claimed(answers[0])) == 1
    assert claimed(answers[1]) == [TaskId(other, 0)]
    [conflict, unfit] = answers[2].completed
    assert isinstance(conflict, LeaseConflict)
    assert isinstance(unfit, Invalid)
    assert answers[2].claimed is None
    assert len(claimed(answers[3])) == 2
    assert isinstance(answers[4].claimed, Invalid)
    await assert_audit_is_silent(ledger.database)


async def test_a_repeat_is_answered_as_the_first_time(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=3)
    [first] = await world.claim()
    turn = Turn((end_of(first),), NEXT._replace(idempotency_key="k"))
    [answer] = await complete_and_claim(ledger, [turn])
    [again] = await complete_and_claim(ledger, [turn])
    assert again.completed == answer.completed
    assert claimed(again) == claimed(answer)
    assert await world.count("leases") == 1
    await assert_audit_is_silent(ledger.database)


async def test_ends_are_written_though_the_claimant_has_been_replaced(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=2)
    [first] = await world.claim()
    await register(ledger, Registration("w2", "name", "host"))
    await register(ledger, Registration("w3", "name", "host", replaces="w2"))
    turn = Turn((end_of(first),), NEXT._replace(worker_id="w2"))
    [answer] = await complete_and_claim(ledger, [turn])
    assert answer.completed == [Completed(first.task_id, accepted=True)]
    assert isinstance(answer.claimed, LeaseConflict)
    assert await world.count("ready") == 1


async def test_tasks_that_name_resources_are_claimed_apart(ledger: Ledger, world: World) -> None:
    await world.submit()
    [first] = await world.claim()
    sized = await world.submit(resources={"cpu": 1})
    for _ in range(2):  # the second time, the queue is known to hold such tasks
        turn = Turn((end_of(first),), NEXT._replace(free=None))
        [answer] = await complete_and_claim(ledger, [turn])
        assert answer.completed == [Completed(first.task_id, accepted=True)]
    assert await world.count("leases") == 1
    assert (await world.job(sized))["running"] == 1


async def test_outputs_are_committed_apart_from_claims(ledger: Ledger, world: World) -> None:
    await world.submit()
    [first] = await world.claim()
    entry = OutputEntry("nowhere", "s3://there")
    [answer] = await complete_and_claim(ledger, [Turn((end_of(first, outputs=(entry,)),), NEXT)])
    assert isinstance(answer.completed[0], Invalid)
    assert claimed(answer) == []
