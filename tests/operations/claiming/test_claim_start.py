"""Claims that record the start: for what a worker runs at once, ASSIGNED and RUNNING together."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.report import Recorded
from tests.audits import assert_audit_is_silent
from tests.world import World

ASSIGNED, RUNNING = TaskState.ASSIGNED, TaskState.RUNNING


async def ask(ledger: Ledger, count: int = 1, **fields: Any) -> list[Claim]:
    """Claim for a worker that runs at once what it gets."""
    [answer] = await claim(ledger, [ClaimRequest("w1", ("q",), count, start=True, **fields)])
    assert isinstance(answer, list), answer
    return answer


async def test_a_claim_that_starts_records_both_moves(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(timeout=60.0)
    [mine] = await ask(ledger)
    assert mine.started
    assert (await world.task(mine.task_id)).state == RUNNING
    assert await world.story(job_id) == ["claimed", "started"]
    job = await world.job(job_id)
    assert (job["pending"], job["assigned"], job["running"]) == (0, 0, 1)
    lease = await world.lease(mine.task_id)
    assert lease is not None
    assert lease["run_deadline_at"] - lease["created_at"] == timedelta(seconds=60)
    assert await world.start(mine) == Recorded(mine.task_id, is_news=False)
    await world.succeed(mine)
    assert await world.story(job_id) == ["claimed", "started", "succeeded"]
    await assert_audit_is_silent(ledger.database)


@pytest.mark.parametrize(
    "fields",
    [
        {"entrypoint": {"command": ["true"]}},
        {"entrypoint": {"shell": "true"}},
    ],
)
async def test_what_has_to_be_built_or_begun_is_started_by_a_report(
    ledger: Ledger, world: World, fields: dict[str, Any]
) -> None:
    await world.submit(**fields)
    [mine] = await ask(ledger)
    assert not mine.started
    assert (await world.task(mine.task_id)).state == ASSIGNED


async def test_one_claim_may_start_some_of_its_tasks(ledger: Ledger, world: World) -> None:
    commands = await world.submit(entrypoint={"shell": "true"}, replicas=2)
    functions = await world.submit(replicas=2)
    found = {(mine.task_id.job_id, mine.started) for mine in await ask(ledger, 4)}
    assert found == {(commands, False), (functions, True)}
    await assert_audit_is_silent(ledger.database)


async def test_requests_of_one_batch_start_what_is_their_own(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=2)
    answers = await claim(
        ledger, [ClaimRequest("w1", ("q",), start=True), ClaimRequest("w2", ("q",))]
    )
    started = [mine.started for answer in answers if isinstance(answer, list) for mine in answer]
    assert started == [True, False]


async def test_a_task_claimed_by_its_id_may_start_with_it(ledger: Ledger, world: World) -> None:
    job_id = await world.submit()
    request = ClaimRequest("w1", task_id=TaskId(job_id, 0), start=True)
    [answer] = await claim(ledger, [request])
    assert isinstance(answer, list)
    assert answer[0].started


async def test_a_repeat_under_its_key_is_told_what_was_recorded(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=2)
    first = await ask(ledger, 2, idempotency_key="k")
    again = await ask(ledger, 2, idempotency_key="k")
    assert [(mine.task_id, mine.lease_token, mine.started) for mine in again] == [
        (mine.task_id, mine.lease_token, True) for mine in first
    ]


async def test_an_attempt_that_started_with_its_claim_is_retried_like_any(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(backoff={"base": 0.0}, max_retries_failure=1)
    [mine] = await ask(ledger)
    await world.fail(mine)
    await world.run_chores()
    [again] = await ask(ledger)
    assert (again.attempt, again.started) == (1, True)
    await world.succeed(again)
    assert await world.story(job_id) == [
        "claimed", "started", "failed", "retried", "claimed", "started", "succeeded",
    ]  # fmt: skip
    await assert_audit_is_silent(ledger.database)
