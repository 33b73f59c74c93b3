"""A row that somebody holds, or that is broken, costs itself alone: every chore does the rest."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import TaskState
from holdfast.operations import follow_up as follow_up_steps
from holdfast.operations.ending import dependents
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.ending.lost_workers import end_gone_worker, lose_worker
from holdfast.operations.ending.reap import reap
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.upkeep.requeue import give_up_scheduling, requeue_due
from tests.audits import assert_audit_is_silent
from tests.gangs import LEASE, a_gang
from tests.journeys.test_saga import Saga, alone
from tests.placed_world import PlacedWorld
from tests.world import World

Hold = Callable[..., AbstractAsyncContextManager[None]]
PENDING, ASSIGNED, KILLED = TaskState.PENDING, TaskState.ASSIGNED, TaskState.KILLED
TASK = "select from holdfast.tasks where job_id = $1 and task_index = $2 for update"
TASKS = "select from holdfast.tasks where job_id = $1 for update"
LEASE_OF = "select from holdfast.leases where job_id = $1 and task_index = $2 for update"
JOB = "select from holdfast.jobs where job_id = $1 for no key update"


@pytest.fixture
def hold(database_url: str) -> Hold:
    """Hold rows for the time of a block, as somebody does who forgot to commit."""

    @asynccontextmanager
    async def held(query: str, *arguments: Any) -> AsyncIterator[None]:
        connection = await asyncpg.connect(database_url)
        try:
            await connection.execute("begin")
            await connection.fetch(query, *arguments)
            yield
        finally:
            await connection.close()

    return held


async def states(world: World, job_id: int) -> list[TaskState]:
    """Read where the tasks of a job stand."""
    rows = await world.clock.fetch(
        "select state from holdfast.tasks where job_id = $1 order by task_index", job_id
    )
    return [TaskState(row[0]) for row in rows]


async def run_out(world: World, **fields: Any) -> int:
    """Submit a job and let the leases of all its tasks run out; returns its id."""
    job_id = await world.submit(**fields)
    await world.claim(100)
    await world.clock.advance(31)
    await world.watch()
    return job_id


async def broken(world: World, table: str, check: str) -> Callable[[], Awaitable[None]]:
    """Make rows impossible to write; returns what makes them possible again."""
    await world.clock.fetch(
        f"alter table holdfast.{table} add constraint broken check ({check}) not valid"
    )

    async def mend() -> None:
        await world.clock.fetch(f"alter table holdfast.{table} drop constraint broken")

    return mend


# Reaping


@pytest.mark.parametrize("query", [TASK, LEASE_OF])
async def test_reaping_ends_what_nobody_holds(world: World, hold: Hold, query: str) -> None:
    job_id = await run_out(world, replicas=3)
    async with hold(query, job_id, 0):
        assert await reap(world.ledger) == 2
        assert await states(world, job_id) == [ASSIGNED, PENDING, PENDING]
    assert await reap(world.ledger) == 1
    await assert_audit_is_silent(world.ledger.database)


@pytest.mark.parametrize("query", [TASKS, JOB])
async def test_reaping_gets_past_more_than_a_batch_of_held_rows(
    world: World, hold: Hold, query: str
) -> None:
    first = await run_out(world, replicas=3)
    second, third = await run_out(world), await run_out(world)
    async with hold(query, first):
        assert [await reap(world.ledger, batch_max=2) for _ in range(2)] == [2, 0]
        assert await states(world, second) == await states(world, third) == [PENDING]
    assert await reap(world.ledger) == 3


async def test_reaping_leaves_a_gang_whole_of_which_one_member_is_held(
    world: World, hold: Hold
) -> None:
    gang = await a_gang(world, max_retries_preemption=5)
    await gang.place()
    await world.clock.advance(LEASE + 1)
    other = await run_out(world)
    async with hold(TASK, gang.job_id, 2):
        assert await reap(world.ledger) == 1
        assert await states(world, other) == [PENDING]
        assert await gang.states() == [ASSIGNED] * 3
    assert await reap(world.ledger) == 3


async def test_reaping_ends_the_rest_when_an_attempt_cannot_be_written(world: World) -> None:
    first, second, third = [await run_out(world) for _ in range(3)]
    mend = await broken(world, "attempts", f"job_id <> {second}")
    with pytest.raises(asyncpg.CheckViolationError):
        await reap(world.ledger)
    assert await states(world, first) == await states(world, third) == [PENDING]
    await mend()
    assert await reap(world.ledger) == 1


# Claiming


async def test_a_claim_takes_what_nobody_holds(world: World, hold: Hold) -> None:
    first, second = await world.submit(replicas=2, priority=5), await world.submit()
    async with hold(TASK, first, 0):
        assert [mine.task_id for mine in await world.claim(1)] == [TaskId(first, 1)]
        assert [mine.task_id for mine in await world.claim(9)] == [TaskId(second, 0)]
        assert await world.claim() == []
    assert [mine.task_id for mine in await world.claim()] == [TaskId(first, 0)]
    await assert_audit_is_silent(world.ledger.database)


# Requeueing, and giving up


async def waiting(world: World, **fields: Any) -> int:
    """Submit a job that is due the next moment; returns its id."""
    [[now]] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8")
    return await world.submit(not_before=now + 5, **fields)


async def test_requeueing_makes_ready_what_nobody_holds(world: World, hold: Hold) -> None:
    first, second = await waiting(world, replicas=3), await waiting(world)
    await world.clock.advance(6)
    async with hold(TASK, first, 0):
        assert [await requeue_due(world.ledger, 2) for _ in range(3)] == [2, 1, 0]
        claims = await world.claim(10)
        assert [c.task_id for c in claims] == [TaskId(first, 1), TaskId(first, 2), (second, 0)]
    assert await requeue_due(world.ledger) == 1


@pytest.mark.parametrize("query", [TASKS, JOB])
async def test_giving_up_gets_past_what_is_held(world: World, hold: Hold, query: str) -> None:
    first = await world.submit(replicas=3, scheduling_timeout=20.0)
    second = await world.submit(scheduling_timeout=20.0)
    await world.clock.advance(21)
    async with hold(query, first):
        assert await give_up_scheduling(world.ledger, batch_max=2) == 1
        assert await states(world, second) == [TaskState.UNSCHEDULABLE]
    assert await give_up_scheduling(world.ledger) == 3
    await assert_audit_is_silent(world.ledger.database)


# Placing


@pytest.mark.parametrize("query", [TASKS, JOB])
async def test_placing_goes_on_with_what_nobody_holds(
    cluster: PlacedWorld, hold: Hold, query: str
) -> None:
    await cluster.add("w1")
    first, second, third = [await cluster.submit() for _ in range(3)]
    async with hold(query, first):
        assert set(await cluster.place()) == {TaskId(second, 0), TaskId(third, 0)}
    assert set(await cluster.place()) == {TaskId(first, 0)}
    await assert_audit_is_silent(cluster.ledger.database)


async def test_placing_takes_the_other_tasks_of_a_job_of_which_one_is_held(
    cluster: PlacedWorld, hold: Hold
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit([1, 2, 3])
    async with hold(TASK, job_id, 0):
        await cluster.place()
        assert await cluster.states(job_id) == [PENDING, ASSIGNED, ASSIGNED]


@pytest.mark.parametrize("query", [TASKS, JOB])
async def test_what_is_held_does_not_keep_the_room_of_others(
    cluster: PlacedWorld, hold: Hold, query: str
) -> None:
    await cluster.add("w1", cpu=1.0)
    first = await cluster.submit(priority=5)
    gang = await cluster.submit(replicas=1, coscheduling={}, priority=4)
    last = await cluster.submit()
    async with hold(query, first), hold(query, gang):
        assert set(await cluster.place()) == {TaskId(last, 0)}


# Lost workers


@pytest.mark.parametrize("query", [TASK, LEASE_OF])
@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_lost_worker_loses_what_nobody_holds(
    cluster: PlacedWorld, hold: Hold, query: str, is_gone: bool
) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit([1, 2, 3], max_retries_preemption=5)
    await cluster.place()
    async with hold(query, job_id, 0):
        assert await lose(cluster, is_gone=is_gone) == 2
        assert await cluster.states(job_id) == [ASSIGNED, PENDING, PENDING]
    assert await lose(cluster, is_gone=is_gone) == 1
    await assert_audit_is_silent(cluster.ledger.database)


async def test_a_lost_worker_loses_what_it_has_of_jobs_that_nobody_holds(
    cluster: PlacedWorld, hold: Hold
) -> None:
    await cluster.add("w1")
    first, second = await cluster.submit(), await cluster.submit()
    await cluster.place()
    async with hold(JOB, first):
        assert await lose(cluster, is_gone=False) == 1
        assert await cluster.states(second) == [PENDING]
    assert await lose(cluster, is_gone=False) == 1


async def lose(cluster: PlacedWorld, *, is_gone: bool) -> int:
    """End what a worker has."""
    if is_gone:
        return await end_gone_worker(cluster.ledger, "w1")
    return await lose_worker(cluster.ledger, "w1", "silent")


# What follows


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_cancel_stops_all_tasks_of_a_job_that_nobody_holds(
    world: World, hold: Hold, monkeypatch: pytest.MonkeyPatch, mode: CancelMode
) -> None:
    monkeypatch.setattr(follow_up_steps, "SWEEP_TASKS_MAX", 3)
    job_id = await world.submit(replicas=10)
    await cancel_job(world.ledger, job_id, mode, actor="operator")
    async with hold(TASK, job_id, 1):
        await follow_up(world.ledger)
        await assert_audit_is_silent(world.ledger.database)
        for _ in range(2):
            await follow_up_all(world.ledger)
            assert await states(world, job_id) == [KILLED, PENDING, *[KILLED] * 8]
            await world.clock.advance(10)
    await follow_up_all(world.ledger)
    assert await states(world, job_id) == [KILLED] * 10
    assert await world.count("outbox") == 0
    await assert_audit_is_silent(world.ledger.database)


async def test_a_large_job_is_lined_up_although_somebody_holds_a_task_of_it(
    world: World, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependents, "LINED_UP_MAX", 4)
    monkeypatch.setattr(follow_up_steps, "FEED_TASKS_MAX", 3)
    first = await world.submit(queue="first")
    job_id = await world.submit(replicas=10, depends_on=[str(first)])
    await world.succeed((await world.claim(queue="first"))[0])
    async with hold(TASK, job_id, 1):
        await follow_up_all(world.ledger)
        assert len(await world.claim(20)) == 9
    assert [claim.task_id for claim in await world.claim(20)] == [TaskId(job_id, 1)]
    await assert_audit_is_silent(world.ledger.database)


async def ended_with_dependents(world: World, count: int) -> list[int]:
    """Submit a job that others wait for, and let it succeed; returns the others."""
    first = await world.submit(queue="first")
    waiting = [await world.submit(depends_on=[str(first)]) for _ in range(count)]
    [mine] = await world.claim(queue="first")
    await world.succeed(mine)
    return waiting


async def claimed(world: World) -> list[int]:
    """Claim all there is; returns the jobs of it."""
    return sorted({claim.task_id.job_id for claim in await world.claim(100)})


async def test_dependents_that_nobody_holds_are_released(world: World, hold: Hold) -> None:
    held, *free = await ended_with_dependents(world, 3)
    other = await ended_with_dependents(world, 1)
    async with hold(JOB, held):
        await follow_up_all(world.ledger)
        assert await claimed(world) == [*free, *other]
    await world.clock.advance(10)
    await follow_up_all(world.ledger)
    assert await claimed(world) == [held]
    assert await world.count("outbox") == 0
    await assert_audit_is_silent(world.ledger.database)


async def test_a_release_that_cannot_be_written_costs_itself_alone(world: World) -> None:
    [bad] = await ended_with_dependents(world, 1)
    good = await ended_with_dependents(world, 2)
    mend = await broken(world, "jobs", f"job_id <> {bad} or released_at is null")
    with pytest.raises(asyncpg.CheckViolationError):
        await follow_up(world.ledger)
    assert await claimed(world) == good
    assert await follow_up(world.ledger) == 0  # what is broken has been put off
    await mend()
    await world.clock.advance(100)
    await follow_up_all(world.ledger)
    assert await claimed(world) == [bad]
    await assert_audit_is_silent(world.ledger.database)


async def test_one_broken_dependent_does_not_slow_down_all_others_of_the_same_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependents, "DEPENDENTS_MAX", 3)
    bad, *good = await ended_with_dependents(world, 10)
    mend = await broken(world, "jobs", f"job_id <> {bad} or released_at is null")
    with pytest.raises(asyncpg.CheckViolationError):
        await follow_up(world.ledger)
    assert await claimed(world) == good
    assert await follow_up(world.ledger) == 0  # what is broken has been put off
    await mend()
    await world.clock.advance(100)
    await follow_up_all(world.ledger)
    assert await claimed(world) == [bad]


async def test_nobody_is_put_off_for_being_next_to_many_broken_dependents(world: World) -> None:
    everybody = await ended_with_dependents(world, 40)
    bad = everybody[::5]
    await broken(world, "jobs", f"job_id <> all (array{bad}) or released_at is null")
    good = [job_id for job_id in everybody if job_id not in bad]
    released: list[int] = []
    for _ in good:  # at most a turn for each, and less than the minute that is for the broken
        await world.clock.advance(1)
        with suppress(asyncpg.CheckViolationError):
            await follow_up(world.ledger)
        released += await claimed(world)
    assert sorted(released) == good


async def failed_sagas(world: World, count: int) -> list[Saga]:
    """Submit jobs with compensations and let them fail; what follows is still to be done."""
    sagas = [await alone(world) for _ in range(count)]
    for saga in sagas:
        claim = await world.claim_by_id(TaskId(saga.job_ids["job"], 0))
        await world.start(claim)
        await world.fail(claim, "PermanentError")
    return sagas


async def test_an_undo_that_cannot_be_written_costs_itself_alone(world: World) -> None:
    bad, good = [saga.job_ids["job"] for saga in await failed_sagas(world, 2)]
    mend = await broken(world, "undos", f"job_id <> {bad}")
    with pytest.raises(asyncpg.CheckViolationError):
        await follow_up(world.ledger)
    assert await undone(world) == [good]
    await mend()
    await world.clock.advance(100)
    await follow_up_all(world.ledger)
    assert await undone(world) == [bad, good]


async def test_an_undo_whose_row_is_held_costs_itself_alone(world: World, hold: Hold) -> None:
    bad, good = [saga.job_ids["job"] for saga in await failed_sagas(world, 2)]
    row = (
        "insert into holdfast.undos (job_id, graph_id, cause_job_id, requested_at) "
        "values ($1, $1, $1, now())"
    )
    async with hold(row, bad):
        await follow_up_all(world.ledger)
        assert await undone(world) == [good]
    await world.clock.advance(100)
    await follow_up_all(world.ledger)
    assert await undone(world) == [bad, good]


async def undone(world: World) -> list[int]:
    """List the jobs that are being undone."""
    rows = await world.clock.fetch("select job_id from holdfast.undos order by 1")
    return [row[0] for row in rows]
