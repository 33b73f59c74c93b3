"""A claim on its way with completions: its answer, a refusal, or the news that neither came."""

import asyncio

import pytest

from holdfast.client.transport import Transport
from holdfast.errors import LeaseConflict
from holdfast.model.workers.worker_credentials import WorkerCredential
from holdfast.wire.answers import ErrorBody, TaskClaimAnswer, TaskCompleteAnswer
from holdfast.wire.requests import TaskClaimRequest, TaskCompleteRequest
from holdfast.worker.claimed.attempt import Attempt
from holdfast.worker.claimed.carried_claim import CarriedClaim, NotCarried
from holdfast.worker.claimed.claims import Claims
from tests.worker.workplace import QUEUE, Workplace, call


async def make(late: list[TaskClaimAnswer] | None = None) -> CarriedClaim:
    """Make a claim for one task; what comes too late is listed."""
    request = TaskClaimRequest("w-1", queues=["q"])
    return CarriedClaim(request, lambda answer, _: ([] if late is None else late).append(answer))


async def test_an_answer_is_given_to_whoever_waits_and_the_first_counts() -> None:
    carried = await make()
    waiting = asyncio.create_task(carried.wait())
    carried.answer(TaskCompleteAnswer([], TaskClaimAnswer([], 7)))
    carried.give_up()
    assert await waiting == TaskClaimAnswer([], 7)


async def test_a_refusal_is_raised_as_that_of_a_claim_by_itself() -> None:
    carried = await make()
    error = ErrorBody("lease_conflict", "w-1 was replaced", details={"reason": "replaced"})
    carried.answer(TaskCompleteAnswer([], claim_error=error))
    with pytest.raises(LeaseConflict, match="w-1 was replaced"):
        await carried.wait()


async def test_without_an_answer_it_has_to_go_by_itself() -> None:
    lost, ignored = await make(), await make()
    lost.give_up()
    ignored.answer(TaskCompleteAnswer([]))
    for carried in (lost, ignored):
        with pytest.raises(NotCarried):
            await carried.wait()


async def test_what_comes_when_nobody_waits_any_more_is_not_dropped() -> None:
    late: list[TaskClaimAnswer] = []
    carried = await make(late)
    waiting = asyncio.create_task(carried.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    carried.answer(TaskCompleteAnswer([], TaskClaimAnswer([], 7)))
    assert late == [TaskClaimAnswer([], 7)]


async def test_what_is_claimed_after_a_worker_has_given_it_up_is_handed_back(
    workplace: Workplace,
) -> None:
    """Its completions were held up, so that asking again under the key has found nothing yet."""
    handed_back: list[Attempt] = []
    async with Transport(workplace.url) as transport:
        credential = WorkerCredential.make("w")
        claims = Claims(transport, credential, [QUEUE], hand_back=handed_back.extend)
        carried = claims.prepare_carried(1)
        finishing = asyncio.create_task(claims.finish_carried(carried))
        await asyncio.sleep(0)
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        assert not handed_back
        task_id = await workplace.submit(call("add", 1))
        carried.note_sent()
        body = TaskCompleteRequest(credential.worker_id, [], claim=carried.body)
        path = "/internal/task-complete"
        carried.answer(await transport.call("POST", path, TaskCompleteAnswer, body=body))
    assert [attempt.task_id for attempt in handed_back] == [task_id]
