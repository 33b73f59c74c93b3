"""Families of placed jobs: what a running attempt submits ends with its job, and not before."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import IllegalMove, LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import LIVE_STATES, TaskState
from holdfast.operations.dead_letters import dead_letter_task
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.submitting.admit import admit
from holdfast.operations.submitting.children import get_parent
from holdfast.operations.submitting.store import store_jobs
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from holdfast.store.database import Database, LockTimeout
from tests.audits import assert_audit_is_silent
from tests.gangs import Gang, a_gang
from tests.waiting import insist
from tests.world import World

KILLED = TaskState.KILLED
ROUNDS = 10
STEPS_MAX = 50


@pytest.fixture
async def world(world: World) -> World:
    """The ledger and its clock, with no outage behind them."""
    await world.watch()
    return world


async def a_placed_job(world: World, replicas: int = 1, **fields: Any) -> Gang:
    """Submit a job without a gang, and place its tasks."""
    job = await a_gang(world, replicas, coscheduling=None, **fields)
    await job.place()
    return job


async def submit_child(world: World, fence: Fence) -> Gang:
    """Submit a child in the name of an attempt, and place it."""
    parent = await get_parent(world.ledger, fence)
    child = Gang(world, await world.submit_child(parent, queue=None))
    await child.place()
    return child


async def a_family(world: World, parent: Gang) -> list[Gang]:
    """Let a job have a child and a grandchild, both of which run."""
    child = await submit_child(world, parent.fences[0])
    return [child, await submit_child(world, child.fences[0])]


async def fail(_: World, parent: Gang) -> None:
    await parent.complete(m0="failed")


async def lose_the_worker(_: World, parent: Gang) -> None:
    await parent.complete(m0="worker_failed")


async def run_out_of_lease(world: World, parent: Gang) -> None:
    await world.clock.fetch(
        "update holdfast.leases set expires_at = holdfast.now() where job_id = $1", parent.job_id
    )
    await world.run_chores()


async def time_out(world: World, parent: Gang) -> None:
    await world.clock.fetch(
        "update holdfast.leases set run_deadline_at = holdfast.now() where job_id = $1",
        parent.job_id,
    )
    await world.run_chores()


async def be_dead_lettered(world: World, parent: Gang) -> None:
    await dead_letter_task(world.ledger, TaskId(parent.job_id, 0), actor="operator")


async def be_cancelled(world: World, parent: Gang) -> None:
    await cancel_job(world.ledger, parent.job_id, "hard", actor="operator")


async def find_no_worker_for_a_retry(world: World, parent: Gang) -> None:
    await parent.complete(m1="failed")
    await world.pass_time(5)


End = Callable[[World, Gang], Awaitable[None]]
ENDS: list[tuple[End, TaskState, dict[str, Any]]] = [
    (fail, TaskState.FAILED, {}),
    (fail, TaskState.DEAD_LETTERED, {"on_exhausted": "dead_letter"}),
    (fail, TaskState.FAILED, {"replicas": 2, "coscheduling": {}}),
    (lose_the_worker, TaskState.WORKER_FAILED, {"max_retries_preemption": 0}),
    (run_out_of_lease, TaskState.WORKER_FAILED, {"max_retries_preemption": 0}),
    (time_out, KILLED, {"timeout": 10.0}),
    (be_dead_lettered, TaskState.DEAD_LETTERED, {}),
    (be_cancelled, KILLED, {}),
    (
        find_no_worker_for_a_retry,
        TaskState.UNSCHEDULABLE,
        {"replicas": 2, "max_retries_failure": 1, "scheduling_timeout": 2.0},
    ),
]


@pytest.mark.parametrize(("end", "state", "fields"), ENDS)
async def test_however_a_job_ends_without_success_its_family_ends_hard(
    world: World, database: Database, end: End, state: TaskState, fields: dict[str, Any]
) -> None:
    parent = await a_gang(world, **{"replicas": 1, "coscheduling": None} | fields)
    await parent.place()
    family = await a_family(world, parent)
    await end(world, parent)
    await follow_up_all(world.ledger)
    assert await world.job_state(parent.job_id) == state
    for job in family:
        assert await world.job_state(job.job_id) == KILLED
        assert (await world.job(job.job_id))["cancel_mode"] == "hard"
        assert await job.ending() == [0]
        await job.confirm(0)
    assert (await world.job(family[0].job_id))["error"] == (
        f"parent job {parent.job_id} ended {state.name}"
    )
    await assert_audit_is_silent(database)


@pytest.mark.parametrize("last_word", ["killed", "failed", "worker_failed", None])
async def test_a_job_that_was_cancelled_softly_ends_its_family_softly(
    world: World, database: Database, last_word: str | None
) -> None:
    parent = await a_placed_job(world)
    family = await a_family(world, parent)
    await world.cancel_job(parent.job_id, "soft")
    assert await family[0].states() == [TaskState.ASSIGNED]
    if last_word is None:
        await world.pass_time(31)  # its grace is over
    else:
        await parent.complete(m0=last_word)
        await world.run_chores()
    assert await world.job_state(parent.job_id) == KILLED
    for job in family:
        row = await world.job(job.job_id)
        assert (row["cancel_mode"], row["state"]) == ("soft", TaskState.RUNNING)
        assert await job.ending() == []
        await job.complete(m0="killed")
        await world.run_chores()
        assert await world.job_state(job.job_id) == KILLED
    await assert_audit_is_silent(database)


async def test_a_child_that_was_asked_softly_may_still_succeed(
    world: World, database: Database
) -> None:
    parent = await a_placed_job(world)
    child, grandchild = await a_family(world, parent)
    await world.cancel_job(parent.job_id, "soft")
    await parent.complete(m0="killed")
    await world.run_chores()
    await child.succeed(0)
    await world.run_chores()
    assert await world.job_state(child.job_id) == TaskState.SUCCEEDED
    assert (await world.job(grandchild.job_id))["cancel_mode"] is None
    await assert_audit_is_silent(database)


async def test_a_hard_cancel_overtakes_a_soft_one_in_the_whole_family(
    world: World, database: Database
) -> None:
    parent = await a_placed_job(world)
    family = await a_family(world, parent)
    await world.cancel_job(parent.job_id, "soft")
    await world.cancel_job(parent.job_id, "hard")
    for job in family:
        assert await world.job_state(job.job_id) == KILLED
        assert await job.ending() == [0]
    await assert_audit_is_silent(database)


async def test_children_outlive_an_attempt_that_is_retried_and_a_job_that_succeeds(
    world: World, database: Database
) -> None:
    parent = await a_placed_job(world, max_retries_failure=1)
    child, grandchild = await a_family(world, parent)
    await parent.complete(m0="failed")
    await world.run_chores()
    await parent.place()
    await parent.succeed(0)
    await world.run_chores()
    assert await world.job_state(parent.job_id) == TaskState.SUCCEEDED
    for job in (child, grandchild):
        assert (await world.job(job.job_id))["cancel_mode"] is None
        assert await job.states() == [TaskState.ASSIGNED]
    await assert_audit_is_silent(database)


async def test_a_lease_that_is_ending_stale_or_strange_has_no_children(
    world: World, database: Database
) -> None:
    job = await a_placed_job(world, max_retries_failure=1)
    first = job.fences[0]
    await submit_child(world, first)
    await job.complete(m0="failed")
    await world.run_chores()
    await job.place()
    second = job.fences[0]
    await world.cancel_task(TaskId(job.job_id, 0), "hard")
    assert await job.ending() == [0]
    jobs = await world.count("jobs")
    for fence in (first, second, second._replace(lease_token=uuid4())):
        with pytest.raises(LeaseConflict):
            await submit_child(world, fence)
    assert await world.count("jobs") == jobs
    await world.run_chores()
    await assert_audit_is_silent(database)


async def test_a_cascade_is_taken_up_by_another_server_after_each_of_its_steps(
    world: World, database: Database, database_url: str
) -> None:
    parent = await a_placed_job(world)
    family = await a_family(world, parent)
    await cancel_job(world.ledger, parent.job_id, "hard", actor="operator")
    for _ in range(STEPS_MAX):
        await assert_audit_is_silent(database)
        async with Database(database_url, connections_max=1) as other:
            if not await follow_up(Ledger(other), rows_max=1):
                break
    assert [await world.job_state(job.job_id) for job in family] == [KILLED, KILLED]
    assert await world.count("outbox") == 0


async def test_a_step_that_dies_half_way_is_taken_again(
    world: World, database: Database, database_url: str
) -> None:
    parent = await a_placed_job(world)
    child, _ = await a_family(world, parent)
    await parent.complete(m0="failed")
    async with Database(database_url) as other, other.transaction() as tx:
        # The child's row is held, so the step stands in the middle of its work.
        await tx.connection.execute(
            "select from holdfast.jobs where job_id = $1 for update", child.job_id
        )
        with pytest.raises(LockTimeout):
            await follow_up_all(world.ledger)
    assert await world.job_state(child.job_id) == TaskState.RUNNING
    await assert_audit_is_silent(database)
    await follow_up_all(world.ledger)
    assert await world.job_state(child.job_id) == KILLED
    await assert_audit_is_silent(database)


async def test_a_child_that_is_submitted_while_its_parent_ends_is_refused_or_ends_too(
    world: World, database: Database
) -> None:
    for _ in range(ROUNDS):
        parent = await a_placed_job(world)
        answers = await asyncio.gather(
            *(submit_job(world, parent) for _ in range(3)),
            insist(partial(parent.complete, m0="failed")),
            return_exceptions=True,
        )
        for answer in answers[:3]:
            assert isinstance(answer, int | LeaseConflict | IllegalMove), answer
        assert answers[3] == [True]
        await insist(partial(follow_up_all, world.ledger))
        for answer in answers[:3]:
            if isinstance(answer, int):
                assert await world.job_state(answer) not in LIVE_STATES
    await assert_audit_is_silent(database)


async def test_a_parent_does_not_end_while_a_child_of_its_is_being_stored(
    world: World, database: Database
) -> None:
    parent = await a_placed_job(world)
    spec = parse_spec({"entrypoint": {"shell": "true"}})
    child = complete_submission(Submission(spec, parent_job_id=parent.job_id), Limits())
    [job] = await admit(world.ledger, [child])
    async with database.transaction() as tx:
        tx.news = News()
        await store_jobs(tx, [job])
        with pytest.raises(LockTimeout):
            await parent.complete(m0="failed")
    await parent.complete(m0="failed")
    await follow_up_all(world.ledger)
    assert await world.job_state(job.job_id) == KILLED
    await assert_audit_is_silent(database)


async def submit_job(world: World, parent: Gang) -> int:
    """Submit a child in the name of an attempt; returns its id."""

    async def submit() -> int:
        job_id = await get_parent(world.ledger, parent.fences[0])
        return await world.submit_child(job_id, queue=None)

    return await insist(submit)
