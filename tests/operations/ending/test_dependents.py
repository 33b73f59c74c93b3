"""Jobs that wait for jobs: what is counted, what is released, and when."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState
from holdfast.operations.ending import dependents
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.dependents import find_forgotten, release_dependents
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.submitting import chunk, store
from holdfast.operations.upkeep.partitions import prune_partition
from holdfast.operations.upkeep.requeue import give_up_scheduling, requeue_due
from holdfast.store.database import Database
from holdfast.store.tables.work.tasks import NewTasks
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.placed_world import PlacedWorld
from tests.world import World


async def end(world: World, job_id: int, *, well: bool = True) -> None:
    """Run the only task of a job to its end."""
    claim = await world.claim_by_id(TaskId(job_id, 0))
    await (world.succeed(claim) if well else world.fail(claim, "PermanentError"))


async def claimed(world: World) -> list[int]:
    """Claim all there is; returns the jobs of it."""
    return sorted({claim.task_id.job_id for claim in await world.claim(100)})


async def awaited_by(world: World, job_id: int) -> list[tuple[int, bool | None]]:
    """List what a job waits for, and whether it holds."""
    query = "select depends_on, holds from holdfast.dependencies where job_id = $1 order by 1"
    return [tuple(row) for row in await world.clock.fetch(query, job_id)]


def any_end(job_id: int) -> dict[str, str]:
    """Wait for a job however it ends."""
    return {"job": str(job_id), "condition": "ended"}


# What is known when a job is stored


async def test_who_waits_for_what_has_happened_starts_at_once(world: World) -> None:
    first = await world.submit()
    await end(world, first)
    second = await world.submit(depends_on=[str(first)])
    assert await awaited_by(world, second) == [(first, True)]
    assert (await world.job(second))["released_at"] is None
    assert await claimed(world) == [second]
    assert await world.count("outbox") == 0


async def test_who_waits_for_what_cannot_happen_any_more_is_cancelled_at_birth(
    world: World,
) -> None:
    first = await world.submit(on_exhausted="fail")
    await end(world, first, well=False)
    await follow_up_all(world.ledger)
    second = await world.submit(depends_on=[str(first)])
    assert await awaited_by(world, second) == [(first, False)]
    assert await claimed(world) == []
    await follow_up_all(world.ledger)
    job = await world.job(second)
    assert (job["state"], job["unmet"], job["released_at"]) == (JobState.KILLED, 1, None)
    assert job["error"] == f"job {first} ended FAILED, and this one needed it to have succeeded"
    assert await world.story(second, -1) == ["submitted", "cancel_requested", "killed"]
    await assert_audit_is_silent(world.ledger.database)


# Releases


async def test_the_last_of_many_parents_releases_and_the_first_bad_one_ends_the_wait(
    world: World,
) -> None:
    parents = [await world.submit(on_exhausted="fail") for _ in range(3)]
    every = await world.submit(depends_on=[str(parent) for parent in parents])
    however = await world.submit(depends_on=[any_end(parent) for parent in parents])
    for parent, well, unmet in zip(
        parents, (True, False, True), ((2, 2), (2, 1), (1, 0)), strict=True
    ):
        await end(world, parent, well=well)
        await follow_up_all(world.ledger)
        assert ((await world.job(every))["unmet"], (await world.job(however))["unmet"]) == unmet
        assert await world.job_state(every) == (
            JobState.PENDING if unmet == (2, 2) else JobState.KILLED
        )
    assert await awaited_by(world, every) == list(zip(parents, (True, False, True), strict=True))
    assert await claimed(world) == [however]
    assert (await world.job(every))["released_at"] is None
    await assert_audit_is_silent(world.ledger.database)


async def test_a_dependent_that_was_cancelled_meanwhile_is_not_released(world: World) -> None:
    first = await world.submit()
    gone, flagged = [await world.submit(depends_on=[str(first)]) for _ in range(2)]
    last = await world.submit(depends_on=[any_end(gone)])
    await world.cancel_job(gone)
    assert await world.job_state(gone) == JobState.KILLED
    await end(world, first)
    await cancel_job(world.ledger, flagged, "soft", actor="operator")
    await follow_up_all(world.ledger)
    for job_id in (gone, flagged):
        job = await world.job(job_id)
        assert (job["state"], job["unmet"], job["released_at"]) == (JobState.KILLED, 0, None)
    assert await claimed(world) == [last]
    await assert_audit_is_silent(world.ledger.database)


async def test_one_task_of_a_job_that_waits_may_be_cancelled_alone(world: World) -> None:
    first = await world.submit()
    second = await world.submit([1, 2, 3], depends_on=[str(first)])
    await world.cancel_task(TaskId(second, 1))
    await end(world, first)
    await follow_up_all(world.ledger)
    assert [claim.task_id.task_index for claim in await world.claim(10)] == [0, 2]
    await assert_audit_is_silent(world.ledger.database)


async def test_more_dependents_than_fit_into_a_turn_are_released_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependents, "DEPENDENTS_MAX", 3)
    first, second = await world.submit(), await world.submit()
    waiting = [await world.submit(depends_on=[str(first)]) for _ in range(6)]
    waiting += [await world.submit(depends_on=[str(second)])]
    await end(world, first)
    await end(world, second)
    released = []
    for _ in range(3):
        assert await release_dependents(world.ledger) == 2
        released.append(len(await world.clock.fetch("select from holdfast.ready")))
    assert released == [3, 6, 7]
    assert await world.count("outbox") == 0
    assert await claimed(world) == waiting


async def test_a_large_job_that_is_released_is_fed_from_its_first_task_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependents, "LINED_UP_MAX", 4)
    first = await world.submit()
    fits, exceeds = [await world.submit([1, 2, 3], depends_on=[str(first)]) for _ in range(2)]
    await end(world, first)
    await release_dependents(world.ledger)
    assert await claimed(world) == [fits]
    rows = await world.clock.fetch("select kind, job_id, next_index from holdfast.outbox")
    assert [tuple(row) for row in rows] == [("feed", exceeds, 0)]
    await assert_audit_is_silent(world.ledger.database)
    await follow_up_all(world.ledger)
    assert len(await world.claim(10)) == 3


# Time


async def test_a_release_does_not_hurry_what_has_a_time_of_its_own(world: World) -> None:
    first = await world.submit()
    [[now]] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8")
    later = await world.submit(depends_on=[str(first)], not_before=now + 1000)
    soon = await world.submit(depends_on=[str(first)], not_before=now + 10)
    await world.clock.advance(60)
    await end(world, first)
    await follow_up_all(world.ledger)
    assert await claimed(world) == [soon]
    await assert_audit_is_silent(world.ledger.database)
    await world.clock.advance(1000)
    await requeue_due(world.ledger)
    assert await claimed(world) == [later]


async def test_a_pace_counts_from_the_release_on(world: World) -> None:
    first = await world.submit()
    paced = await world.submit([1, 2], depends_on=[str(first)], start_rate=0.01, start_delay=100.0)
    await world.clock.advance(1000.0)
    await end(world, first)
    for seconds, count in ((0.0, 0), (100.0, 1), (100.0, 1)):
        await world.clock.advance(seconds)
        await follow_up_all(world.ledger)
        claims = await world.claim(9)
        assert [claim.task_id.job_id for claim in claims] == [paced] * count
    await assert_audit_is_silent(world.ledger.database)


async def test_the_wait_for_a_worker_counts_from_the_release_on(world: World) -> None:
    first = await world.submit()
    second = await world.submit(depends_on=[str(first)], scheduling_timeout=100.0)
    await world.clock.advance(500)
    await end(world, first)
    await follow_up_all(world.ledger)
    await world.clock.advance(90)
    assert await give_up_scheduling(world.ledger) == 0
    await assert_audit_is_silent(world.ledger.database)
    await world.clock.advance(20)
    assert await give_up_scheduling(world.ledger) == 1
    assert await world.job_state(second) == JobState.UNSCHEDULABLE


async def test_a_retry_of_a_released_job_is_found_under_its_own_time(world: World) -> None:
    first = await world.submit()
    second = await world.submit(depends_on=[str(first)], max_retries_failure=1, priority=3)
    await end(world, first)
    await follow_up_all(world.ledger)
    await world.fail(await world.claim_by_id(TaskId(second, 0)))
    await world.clock.advance(60)
    await requeue_due(world.ledger)
    await assert_audit_is_silent(world.ledger.database)
    await world.succeed(await world.claim_by_id(TaskId(second, 0)))


# Large and placed jobs


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job of more than ten tasks count as large."""
    shrink_chunks(monkeypatch, 10)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("well", [True, False])
async def test_a_large_job_takes_what_it_waits_for_as_it_is_once_all_of_it_has_arrived(
    world: World, monkeypatch: pytest.MonkeyPatch, well: bool
) -> None:
    first = await world.submit(on_exhausted="fail")
    insert_tasks = store.insert_tasks

    async def end_meanwhile(tx: Any, rows: NewTasks, *given: Any, now: Any) -> None:
        if rows.task_indexes[0] == 20:
            await end_parent()
        await insert_tasks(tx, rows, *given, now=now)

    async def end_parent() -> None:
        await end(world, first, well=well)
        await follow_up_all(world.ledger)

    monkeypatch.setattr(chunk, "insert_tasks", end_meanwhile)
    second = await world.submit(depends_on=[str(first)], replicas=25)
    await follow_up_all(world.ledger)
    assert await awaited_by(world, second) == [(first, well)]
    assert len(await world.claim(100)) == (25 if well else 0)
    assert (await world.job_state(second) == JobState.KILLED) is not well
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.usefixtures("small_chunks")
async def test_a_large_job_that_waits_is_not_in_line_before_its_release(world: World) -> None:
    first = await world.submit()
    second = await world.submit(depends_on=[str(first)], replicas=25)
    await follow_up_all(world.ledger)
    await assert_audit_is_silent(world.ledger.database)
    await end(world, first)
    assert await world.claim(100) == []
    await follow_up_all(world.ledger)
    assert len(await world.claim(100)) == 25
    assert (await world.job(second))["released_at"] is not None


async def test_a_gang_that_waited_is_placed_whole(cluster: PlacedWorld) -> None:
    await cluster.add("w1", cpu=2.0)
    first = await cluster.submit(resources={"cpu": 0.5})
    gang = await cluster.submit(
        replicas=2, coscheduling={}, resources={"cpu": 0.5}, depends_on=[str(first)]
    )
    task_id, worker = await cluster.placed(first)
    assert await cluster.place() == {}
    worker.succeed(task_id)
    await cluster.beat()
    await follow_up_all(cluster.ledger)
    assert set(await cluster.place()) == {TaskId(gang, 0), TaskId(gang, 1)}
    await assert_audit_is_silent(cluster.ledger.database)


# What must not get lost


async def test_an_end_that_nobody_was_told_of_is_found_step_by_step(world: World) -> None:
    [[nobody]] = await world.clock.fetch("select nextval('holdfast.job_ids')")
    parents = [await world.submit() for _ in range(5)]
    waiting = [await world.submit(depends_on=[str(parent)]) for parent in parents]
    for parent in parents[1:4]:
        await end(world, parent)
    # Not that it ever should: rows are lost, and somebody waits for a job that is not there.
    await world.clock.fetch("delete from holdfast.outbox where job_id <> $1", parents[1])
    await world.clock.fetch(
        "insert into holdfast.dependencies (job_id, depends_on, condition) "
        "values ($1, $2, 'ended')",
        waiting[0],
        nobody,
    )
    after: int | None = 0
    steps = 0
    while after is not None:
        after = await find_forgotten(world.ledger, after, batch_max=2)
        steps += 1
    assert steps == 4
    rows = await world.clock.fetch("select job_id from holdfast.outbox order by 1")
    assert [row[0] for row in rows] == parents[1:4]
    await follow_up_all(world.ledger)
    assert await claimed(world) == [parents[0], parents[4], *waiting[1:4]]


async def test_a_job_is_kept_while_somebody_has_yet_to_hear_of_its_end(world: World) -> None:
    first = await world.submit()
    await world.clock.fetch("select setval('holdfast.job_ids', 20000)")
    # One that has ended itself: who has not holds the range in any case.
    await world.cancel_job(await world.submit(depends_on=[str(first)]))
    await end(world, first)
    await world.clock.fetch("delete from holdfast.outbox")
    await world.clock.advance(3600)
    assert await prune_partition(world.ledger, timedelta(minutes=1)) == 0
    await find_forgotten(world.ledger, 0, batch_max=10)
    await follow_up_all(world.ledger)
    assert await prune_partition(world.ledger, timedelta(minutes=1)) == 1
    await assert_audit_is_silent(world.ledger.database)


async def test_a_dependent_in_somebodys_hands_does_not_hold_up_what_else_follows(
    world: World, database: Database
) -> None:
    first = await world.submit()
    second = await world.submit(depends_on=[str(first)])
    other = await world.submit()
    await end(world, first)
    await cancel_job(world.ledger, other, "hard", actor="operator")
    async with database.connection() as connection, connection.transaction():
        await connection.fetch("select from holdfast.jobs where job_id = $1 for share", second)
        assert await follow_up(world.ledger) > 0
        assert await world.job_state(other) == JobState.KILLED
        assert await follow_up(world.ledger) == 0  # it has been put off
    await world.clock.advance(2)
    await follow_up_all(world.ledger)
    assert await claimed(world) == [second]
