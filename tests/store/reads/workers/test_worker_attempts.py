"""What has ended on a worker, the newest first, and the jobs that it is of."""

from typing import Any

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Database
from holdfast.store.reads.work.jobs import JobFilter, list_jobs
from holdfast.store.reads.workers import worker_attempts
from tests.world import World


async def ended_on(
    database: Database, worker_id: str, *, page_size: int = 100, only_unsuccessful: bool = False
) -> list[tuple[TaskId, int, int]]:
    """List task, attempt and state of what ended on a worker, page by page."""
    found: list[tuple[TaskId, int, int]] = []
    after = worker_attempts.NEWEST_ATTEMPT
    for _ in range(100):
        async with database.transaction() as tx:
            page = await worker_attempts.list_attempts_of_worker(
                tx,
                worker_id,
                only_unsuccessful=only_unsuccessful,
                after=after,
                page_size=page_size,
            )
        found += [(row.task_id, row.attempt, row.state) for row in page.rows]
        if page.next_after is None:
            return found
        after = page.next_after
    raise AssertionError("the list has no end")


async def test_what_ended_on_a_worker_is_listed_the_newest_first(
    world: World, database: Database
) -> None:
    # The second job ends first, and three of the first at the same moment.
    first = await world.submit([1, 2, 3])
    second = await world.submit()
    claims = sorted(await world.claim(4, "bad"), key=lambda claim: claim.task_id)
    await world.start(claims[3])
    await world.succeed(claims[3])
    await world.clock.advance(1)
    for claim in claims[:3]:
        await world.fail(claim)
    await world.submit()
    [other] = await world.claim(1, "good")
    await world.start(other)
    await world.succeed(other)

    failed = [(TaskId(first, index), 0, TaskState.FAILED) for index in (2, 1, 0)]
    for page_size in (1, 2, 100):
        assert await ended_on(database, "bad", page_size=page_size) == [
            *failed,
            (TaskId(second, 0), 0, TaskState.SUCCEEDED),
        ]
        assert (
            await ended_on(database, "bad", page_size=page_size, only_unsuccessful=True) == failed
        )
    assert await ended_on(database, "good") == [(other.task_id, 0, TaskState.SUCCEEDED)]
    assert await ended_on(database, "nobody") == []


async def test_jobs_are_found_by_who_ran_them_or_runs_them_now(
    world: World, database: Database
) -> None:
    ended, other, held = [await world.submit(queue=f"q{number}") for number in range(3)]
    [claim] = await world.claim(1, "w1", "q0")
    await world.start(claim)
    await world.succeed(claim)
    await world.claim(1, "w2", "q1")
    await world.claim(1, "w1", "q2")

    async def find(**wanted: Any) -> list[int]:
        async with database.transaction() as tx:
            page = await list_jobs(tx, JobFilter(**wanted), page_size=10)
        return [job.job_id for job in page.rows]

    assert await find(worker_id="w1") == [held, ended]
    assert await find(worker_id="w1", queue="q0") == [ended]
    assert await find(worker_id="w2") == [other]
    assert await find(worker_id="w3") == []
