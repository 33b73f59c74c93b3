"""The end of a job races with those who wait for it: none is forgotten, none released twice."""

import asyncio
import random
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import JobState, TaskState
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.complete import Completion, complete
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.report import Report, report
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit, submit_one
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.waiting import insist

SERVERS = 3
LOOK = """select jobs.job_id, state, unmet, released_at is not null as is_released,
                 count(ready.job_id) as places
            from holdfast.jobs left join holdfast.ready using (job_id)
           where jobs.job_id = any ($1) group by jobs.job_id"""


def a_job(*parents: int) -> Submission:
    """Describe a job that waits for others."""
    return Submission(
        parse_spec(
            {
                "entrypoint": {"function": "app:work"},
                "queue": "q",
                "depends_on": [str(parent) for parent in parents],
            }
        )
    )


async def submit_many(ledger: Ledger, submissions: list[Submission]) -> list[int]:
    """Submit jobs; returns their ids."""
    answers = await submit(ledger, submissions)
    return [answer.job_id for answer in answers if isinstance(answer, Submitted)]


async def run(ledger: Ledger, count: int) -> list[Fence]:
    """Claim and start so many tasks, each of its own job; in the order of jobs."""
    [claims] = await claim(ledger, [ClaimRequest("w1", ("q",), count)])
    assert isinstance(claims, list)
    fences = sorted((Fence(c.task_id, c.attempt, c.lease_token) for c in claims), key=_task)
    await report(ledger, [Report(fence, TaskState.RUNNING) for fence in fences])
    return fences


def _task(fence: Fence) -> tuple[int, int]:
    return fence.task_id


async def look(ledger: Ledger, job_ids: list[int]) -> list[Any]:
    """Read how jobs stand, and how often they stand in line."""
    async with ledger.database.connection() as connection:
        rows: list[Any] = await connection.fetch(LOOK, job_ids)
    assert len(rows) == len(job_ids)
    return rows


@pytest.mark.parametrize(("status", "rounds"), [("succeeded", 200), ("failed", 60)])
async def test_who_is_submitted_while_its_parent_ends_is_never_forgotten(
    database_url: str, status: Any, rounds: int
) -> None:
    async with Database(database_url) as mine, Database(database_url) as yours:
        submitter, server = Ledger(mine), Ledger(yours)
        parents = await submit_many(server, [a_job()] * rounds)
        fences = await run(server, rounds)
        chance = random.Random(7)
        waiting: list[int] = []

        async def end(fence: Fence) -> None:
            await asyncio.sleep(chance.random() * 0.004)
            item = Completion(fence, status, error_class="PermanentError")
            await insist(lambda: complete(server, [item]))

        async def wait_for(parent: int) -> None:
            await asyncio.sleep(chance.random() * 0.004)
            answer = await insist(lambda: submit_one(submitter, a_job(parent)))
            waiting.append(answer.job_id)

        for parent, fence in zip(parents, fences, strict=True):
            await asyncio.gather(end(fence), wait_for(parent))
        await follow_up_all(server)
        rows = await look(server, waiting)
        found = {(row["state"], row["unmet"], row["places"]) for row in rows}
        is_well = status == "succeeded"
        assert found == ({(JobState.PENDING, 0, 1)} if is_well else {(JobState.KILLED, 1, 0)})
        if is_well:  # some came before the end and some after it, or this was no race
            assert 0 < sum(row["is_released"] for row in rows) < rounds
        await assert_audit_is_silent(mine)


async def test_servers_that_follow_up_at_once_release_every_job_once(database_url: str) -> None:
    chance = random.Random(3)
    async with AsyncExitStack() as stack:
        ledgers = [
            Ledger(await stack.enter_async_context(Database(database_url))) for _ in range(SERVERS)
        ]
        first = ledgers[0]
        parents = await submit_many(first, [a_job()] * 60)
        fences = await run(first, 60)
        waiting = await submit_many(
            first, [a_job(*chance.sample(parents, chance.randint(1, 30))) for _ in range(100)]
        )
        cancelled = set(chance.sample(waiting, 10))
        has_ended = asyncio.Event()

        async def serve(ledger: Ledger) -> None:
            while not has_ended.is_set():
                await insist(lambda: follow_up(ledger))
                await asyncio.sleep(0)

        async def end() -> None:
            for start in range(0, len(fences), 4):
                items = [Completion(fence, "succeeded") for fence in fences[start : start + 4]]
                await insist(partial(complete, first, items))
            has_ended.set()

        async def cancel() -> None:
            for job_id in sorted(cancelled):
                call = partial(cancel_job, first, job_id, "hard", actor="ann")
                await insist(call)

        await asyncio.gather(end(), cancel(), *(serve(ledger) for ledger in ledgers))
        await follow_up_all(first)
        rows = await look(first, waiting)
        kept = [row for row in rows if row["job_id"] not in cancelled]
        assert {(row["unmet"], row["is_released"], row["places"]) for row in kept} == {(0, True, 1)}
        assert {row["state"] for row in rows if row["job_id"] in cancelled} == {JobState.KILLED}
        await assert_audit_is_silent(first.database)
