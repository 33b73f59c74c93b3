"""Claims that completions bring along: answered together, and neither costs the other anything."""

import asyncio
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from holdfast.ledger.lending import Loan, NobodyWaits
from holdfast.model.work.ids import parse_task_id
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.services.runtime import Runtime
from tests.api.face import Face, Said, fence, heard
from tests.waiting import eventually
from tests.world import World


@pytest.fixture
async def claims(quiet_face: Face) -> list[Any]:
    """Three tasks of one job, claimed by w1."""
    await quiet_face.submit(inputs=[1, 2, 3])
    return await quiet_face.claim(3)


async def state_of(world: World, claim: Any) -> TaskState:
    return (await world.task(parse_task_id(claim["task_id"]))).state


async def has_succeeded(world: World, claim: Any) -> bool:
    return await state_of(world, claim) == TaskState.SUCCEEDED


async def turn(face: Face, claims: list[Any], **claim: Any) -> Said:
    """Report successes, and bring a claim along."""
    asked = {"worker_id": "w1", "queues": ["q"], "max_tasks": 3} | claim
    completions = [{**fence(each), "status": "succeeded"} for each in claims]
    body = {"worker_id": "w1", "completions": completions, "claim": asked}
    return await face.post("/internal/task-complete", body)


async def test_a_completion_brings_a_claim_along(quiet_face: Face, world: World) -> None:
    await quiet_face.submit(inputs=[1, 2, 3, 4])
    first = await quiet_face.claim(2)
    said = (await turn(quiet_face, first, start=True)).json
    assert [result["accepted"] for result in said["results"]] == [True, True]
    assert [(each["input"], each["started"]) for each in said["claim"]["claims"]] == [
        (3, True),
        (4, True),
    ]
    assert "claim_with_completions" in said["claim"]["abilities"]
    assert await state_of(world, first[0]) == TaskState.SUCCEEDED
    assert await state_of(world, said["claim"]["claims"][0]) == TaskState.RUNNING
    last = (await turn(quiet_face, said["claim"]["claims"])).json
    assert last["claim"]["claims"] == []


async def test_what_is_stored_between_a_look_and_the_wait_is_claimed(
    quiet_face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = quiet_face.runtime.writers.claim

    async def look_and_store(request: ClaimRequest) -> list[Claim]:
        found = await look(request)
        monkeypatch.undo()
        await quiet_face.submit()
        return found

    monkeypatch.setattr(quiet_face.runtime.writers, "claim", look_and_store)
    said = await heard(quiet_face.poll())
    assert len(said.json["claims"]) == 1


async def test_a_turn_that_is_sent_again_is_answered_as_the_first_time(quiet_face: Face) -> None:
    await quiet_face.submit(inputs=[1, 2, 3, 4])
    first = await quiet_face.claim(1)
    said, again = [
        (await turn(quiet_face, first, max_tasks=2, idempotency_key="k")).json for _ in range(2)
    ]
    assert again["results"] == said["results"]
    tokens, repeated = [
        [each["lease_token"] for each in answer["claim"]["claims"]] for answer in (said, again)
    ]
    assert tokens == repeated
    assert len(await quiet_face.claim(4)) == 1, "no more than one is left"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"wait_ms": 1}, "claim.wait_ms"),
        ({"worker_id": "w2"}, "claim.worker_id"),
        ({"queues": [], "task_id": "1.0"}, "claim.task_id"),
        ({"queues": []}, "queues"),
    ],
)
async def test_what_is_wrong_with_a_claim_costs_no_completion(
    quiet_face: Face, world: World, claims: list[Any], wrong: dict[str, Any], field: str
) -> None:
    said = await turn(quiet_face, claims[:1], **wrong)
    assert said.json["results"] == [{"task_id": claims[0]["task_id"], "accepted": True}]
    assert said.json["claim_error"]["field"] == field
    assert "claim" not in said.json
    assert await state_of(world, claims[0]) == TaskState.SUCCEEDED


async def test_a_completion_that_is_refused_does_not_keep_its_claim_from_being_made(
    quiet_face: Face, claims: list[Any]
) -> None:
    await quiet_face.submit(inputs=[4])
    said = (await turn(quiet_face, [claims[0] | {"lease_token": str(uuid4())}, claims[1]])).json
    assert [result.get("accepted") for result in said["results"]] == [None, True]
    assert said["results"][0]["error"]["code"] == "lease_conflict"
    assert [each["input"] for each in said["claim"]["claims"]] == [4]


async def test_a_refusal_of_a_single_completion_does_not_hide_what_was_claimed(
    quiet_face: Face, claims: list[Any]
) -> None:
    await quiet_face.submit(inputs=[4])
    stale = {**fence(claims[0]), "lease_token": str(uuid4()), "status": "succeeded"}
    body = {"worker_id": "w1", **stale, "claim": {"worker_id": "w1", "queues": ["q"]}}
    said = (await quiet_face.post("/internal/task-complete", body)).json
    assert said["results"][0]["error"]["code"] == "lease_conflict"
    assert [each["input"] for each in said["claim"]["claims"]] == [4]


async def test_a_task_that_somebody_holds_keeps_nothing_back_of_what_came_with_it(
    quiet_face: Face, world: World, claims: list[Any]
) -> None:
    await quiet_face.submit(inputs=[4])
    held = parse_task_id(claims[0]["task_id"])
    query = "select 1 from holdfast.tasks where job_id = $1 and task_index = $2 for update"
    async with world.ledger.database.connection() as other, other.transaction():
        await other.fetch(query, *held)
        asking = asyncio.create_task(turn(quiet_face, claims[:2]))
        await eventually(lambda: has_succeeded(world, claims[1]))
    said = (await asking).json
    assert [result.get("accepted") for result in said["results"]] == [True, True]
    assert [each["input"] for each in said["claim"]["claims"]] == [4]


async def borrow(runtime: Runtime, stack: ExitStack) -> Loan:
    """Borrow the claim of the one who waits for `q`."""
    loans: list[Loan] = []

    def find() -> bool:
        loan = stack.enter_context(runtime.doorbells.borrow("q"))
        loans.extend([] if loan is None else [loan])
        return bool(loans)

    await eventually(find)
    return loans[0]


async def lease_to(runtime: Runtime, loan: Loan) -> list[Claim]:
    """Lease what is in line to the one who lent his claim."""
    [claims] = await claim(runtime.ledger, [loan.request])
    assert not isinstance(claims, Exception)
    return claims


async def test_a_lease_that_is_given_counts_from_before_it_was_made(
    quiet_face: Face, quiet: Runtime
) -> None:
    """The worker adds the time that it has waited: if that is too long, it outruns its lease."""
    quiet.ledger.lending = NobodyWaits()
    now = asyncio.get_running_loop().time
    began_at = now()
    poll = quiet_face.poll()
    await quiet_face.polling()
    with ExitStack() as stack:
        loan = await borrow(quiet, stack)
        lent_by = now()
        await quiet_face.submit()
        given = await lease_to(quiet, loan)
        # Whoever stores work may be held up once the lease is made, by a slow disk for instance.
        async with quiet.ledger.database.connection() as connection:
            await connection.execute("select pg_sleep(0.2)")
        loan.give(given)
    said = (await heard(poll)).json
    assert len(said["claims"]) == 1
    assert said["waited_ms"] <= (lent_by - began_at) * 1000
