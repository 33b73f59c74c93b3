"""Sixty-four claimers at once, each on a connection of its own."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from holdfast.errors import LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.claiming.claim import Answer, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database, LockTimeout
from tests.audits import assert_audit_is_silent

CLAIMERS = 64
TASKS = 10_000
BATCH = 100

ClaimAll = Callable[[int], Awaitable[list[TaskId]]]


async def _submit(ledger: Ledger, tasks: int = TASKS) -> int:
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"})
    return (await submit_one(ledger, Submission(spec, ("1",) * tasks))).job_id


async def _claim_patiently(
    ledger: Ledger, requests: list[ClaimRequest]
) -> list[Answer | Exception]:
    """Claim; on a slow machine a row may be held for too long, and nothing has changed then."""
    while True:
        answers = await claim(ledger, requests)
        if not any(isinstance(answer, LockTimeout) for answer in answers):
            return answers


async def _race(claim_all: ClaimAll) -> Counter[TaskId]:
    """Let every claimer take what it can get; counts how often each task was handed out."""
    found = await asyncio.gather(*(claim_all(number) for number in range(CLAIMERS)))
    return Counter(task_id for task_ids in found for task_id in task_ids)


async def test_64_claimers_of_one_queue_never_claim_a_task_twice(
    ledger: Ledger, database_url: str
) -> None:
    job_id = await _submit(ledger)

    async def claim_all(number: int) -> list[TaskId]:
        taken: list[TaskId] = []
        async with Database(database_url, connections_max=1) as database:
            own = Ledger(database)
            while True:
                [answer] = await _claim_patiently(own, [ClaimRequest(f"w{number}", ("q",), BATCH)])
                assert isinstance(answer, list)
                if not answer:
                    return taken
                taken += [found.task_id for found in answer]

    handed_out = await _race(claim_all)
    assert handed_out == Counter({TaskId(job_id, index): 1 for index in range(TASKS)})
    await assert_audit_is_silent(ledger.database)


@pytest.mark.parametrize(
    ("tasks", "batch"),
    [(1_000, 10), pytest.param(TASKS, BATCH, marks=pytest.mark.nightly)],
)
async def test_64_claimers_by_id_never_claim_a_task_twice(
    ledger: Ledger, database_url: str, tasks: int, batch: int
) -> None:
    job_id = await _submit(ledger, tasks)
    # Every task is wanted by three claimers, as if its wake-up had been delivered three times.
    wishes: list[list[TaskId]] = [[] for _ in range(CLAIMERS)]
    for index in range(tasks):
        for number in random.Random(index).sample(range(CLAIMERS), 3):
            wishes[number].append(TaskId(job_id, index))

    async def claim_all(number: int) -> list[TaskId]:
        taken: list[TaskId] = []
        wanted = wishes[number]
        random.Random(number).shuffle(wanted)
        async with Database(database_url, connections_max=1) as database:
            own = Ledger(database)
            for first in range(0, len(wanted), batch):
                requests = [
                    ClaimRequest(f"w{number}", task_id=task_id)
                    for task_id in wanted[first : first + batch]
                ]
                for answer in await _claim_patiently(own, requests):
                    if isinstance(answer, list):
                        taken += [found.task_id for found in answer]
                    else:
                        assert isinstance(answer, LeaseConflict)
                        assert answer.reason == "already_running"
        return taken

    handed_out = await _race(claim_all)
    assert handed_out == Counter({TaskId(job_id, index): 1 for index in range(tasks)})
    await assert_audit_is_silent(ledger.database)


async def test_the_race_would_catch_a_claim_without_a_lock(
    ledger: Ledger, database_url: str
) -> None:
    """A control: the same race over the same table, read without a lock, does claim twice."""
    await _submit(ledger)

    async def claim_all(number: int) -> list[TaskId]:
        taken: list[TaskId] = []
        connection = await asyncpg.connect(database_url)
        try:
            while True:
                rows = await connection.fetch(
                    "select job_id, task_index from holdfast.ready "
                    "order by queue, urgency, eligible_at, job_id, task_index limit $1",
                    BATCH,
                )
                if not rows:
                    return taken
                taken += [TaskId(row[0], row[1]) for row in rows]
                await connection.execute(
                    "delete from holdfast.ready where task_index = any($1)",
                    [row[1] for row in rows],
                )
        finally:
            await connection.close()

    handed_out = await _race(claim_all)
    assert max(handed_out.values()) > 1
