"""What follows downward: in transactions of its own, and never lost between them."""

import asyncio
from itertools import pairwise

import pytest
from asyncpg import UndefinedTableError

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.outcomes import CancelMode
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Claim
from holdfast.operations.ending.cancel import cancel_job
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.submitting.graph import submit_batch
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.world import World

KILLED = TaskState.KILLED


async def family(world: World) -> list[Claim]:
    """Submit a job, its child and its grandchild; all of them run."""
    parent = await world.submit(queue="parent", lease=120.0)
    child = await world.submit_child(parent, queue="child", lease=120.0)
    await world.submit_child(child, queue="grandchild", lease=120.0)
    return [
        claim
        for queue in ("parent", "child", "grandchild")
        for claim in await world.claim(queue=queue)
    ]


async def test_a_hard_cancel_reaches_every_generation(world: World) -> None:
    jobs = [claim.task_id.job_id for claim in await family(world)]
    await world.cancel_job(jobs[0], "hard")
    for job_id in jobs:
        assert await world.job_state(job_id) == KILLED
        assert (await world.lease(TaskId(job_id, 0)))["ending"]  # type: ignore[index]
    assert (await world.job(jobs[1]))["error"] == f"parent job {jobs[0]} ended KILLED"


async def test_a_soft_cancel_reaches_every_generation_softly(world: World) -> None:
    claims = await family(world)
    await world.cancel_job(claims[0].task_id.job_id, "soft")
    for ending, following in pairwise(claims):
        job_id = following.task_id.job_id
        assert (await world.job(job_id))["cancel_mode"] is None
        await world.complete(ending, "killed")
        assert await world.job_state(ending.task_id.job_id) == KILLED
        await follow_up_all(world.ledger)
        assert (await world.job(job_id))["cancel_mode"] == "soft"
        assert await world.job_state(job_id) == TaskState.RUNNING
        assert (await world.renew(following)).cancel == "soft"


async def test_a_failed_parent_ends_its_children_hard(world: World) -> None:
    parent = await world.submit(queue="parent", on_exhausted="fail")
    child = await world.submit_child(parent)
    [mine] = await world.claim(queue="parent")
    [running] = await world.claim()
    await world.fail(mine)
    await follow_up_all(world.ledger)
    assert await world.job_state(child) == KILLED
    assert (await world.lease(running.task_id))["ending"]  # type: ignore[index]


async def test_a_parent_that_succeeded_leaves_its_children_alone(world: World) -> None:
    parent = await world.submit(queue="parent")
    child = await world.submit_child(parent)
    [mine] = await world.claim(queue="parent")
    await world.succeed(mine)
    await follow_up_all(world.ledger)
    assert await world.job_state(child) == TaskState.PENDING
    assert (await world.job(child))["cancel_mode"] is None


async def test_children_that_have_ended_stay_as_they_are(world: World) -> None:
    parent = await world.submit(queue="parent")
    child = await world.submit_child(parent)
    [mine] = await world.claim()
    await world.succeed(mine)
    await world.cancel_job(parent)
    assert await world.job_state(child) == TaskState.SUCCEEDED


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_more_children_than_one_step_takes_are_all_cancelled(
    ledger: Ledger, world: World, mode: CancelMode
) -> None:
    parent = await world.submit(queue="parent")
    children = [await world.submit_child(parent) for _ in range(120)]
    await world.cancel_job(parent, mode)
    states = {await world.job_state(child) for child in children}
    assert states == {KILLED}


async def test_work_that_waits_survives_a_server_that_dies(
    ledger: Ledger, world: World, database_url: str
) -> None:
    parent, child, grandchild = [claim.task_id.job_id for claim in await family(world)]
    await cancel_job(ledger, parent, "hard", actor="operator")
    await follow_up(ledger)
    assert await world.job_state(child) == TaskState.RUNNING
    assert await world.count("outbox") > 0
    async with Database(database_url) as other:
        await follow_up_all(Ledger(other))
    assert await world.job_state(grandchild) == KILLED
    assert await world.count("outbox") == 0


async def test_two_servers_share_the_work_without_harm(
    ledger: Ledger, world: World, database_url: str
) -> None:
    jobs = [await world.submit(replicas=50) for _ in range(10)]
    for job_id in jobs:
        await cancel_job(ledger, job_id, "hard", actor="operator")
    async with Database(database_url) as other:
        await asyncio.gather(follow_up_all(ledger), follow_up_all(Ledger(other)))
    await follow_up_all(ledger)
    for job_id in jobs:
        assert await world.job_state(job_id) == KILLED
        assert await world.story(job_id, 49) == ["killed"]
    assert await world.count("outbox") == 0


async def test_a_row_that_another_server_works_on_is_skipped(
    ledger: Ledger, world: World, database_url: str
) -> None:
    job_id = await world.submit()
    await cancel_job(ledger, job_id, "hard", actor="operator")
    async with Database(database_url) as other, other.transaction() as tx:
        await tx.connection.execute("select from holdfast.outbox for update")
        assert await follow_up(ledger) == 0
    assert await follow_up(ledger) > 0


async def test_a_cascade_gets_by_with_one_connection(world: World, database_url: str) -> None:
    parent = await world.submit(queue="parent")
    child = await world.submit_child(parent)
    async with Database(database_url, connections_max=1) as narrow, asyncio.timeout(20):
        ledger = Ledger(narrow)
        await cancel_job(ledger, parent, "hard", actor="operator")
        await follow_up_all(ledger)
    assert await world.job_state(child) == KILLED


async def test_nothing_to_do_takes_no_step(ledger: Ledger) -> None:
    assert await follow_up(ledger) == 0
    assert await follow_up_all(ledger) == 0


@pytest.mark.nightly
async def test_a_large_job_that_was_cancelled_is_not_lined_up_any_further(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(replicas=10_500)
    await cancel_job(ledger, job_id, "hard", actor="operator")
    assert await world.count("ready") == 10_000
    await follow_up_all(ledger)
    assert await world.count("ready") == await world.count("waiting") == 0
    assert await world.claim(5) == []
    job = await world.job(job_id)
    assert (job["killed"], job["state"]) == (10_500, KILLED)


async def line_of(world: World) -> list[int]:
    """List the indexes of the tasks that stand in line."""
    await follow_up_all(world.ledger)
    return [row[0] for row in await world.clock.fetch("select task_index from holdfast.ready")]


async def test_the_tasks_of_a_paced_job_come_to_stand_in_line_one_after_the_other(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit([1, 2, 3], start_rate=0.001, start_delay=5000.0)
    assert await line_of(world) == []
    await assert_audit_is_silent(ledger.database)
    # The clock goes on beside these jumps, so each leaves minutes to spare.
    for seconds, line in ((4500.0, []), (500.0, [0]), (500.0, [0]), (500.0, [0, 1])):
        await world.clock.advance(seconds)
        assert await line_of(world) == line
    await assert_audit_is_silent(ledger.database)
    # Nobody was there for long: what was missed does not come all at once.
    await world.clock.advance(10_000.0)
    assert await line_of(world) == [0, 1, 2]
    for claim in await world.claim(9):
        await world.succeed(claim)
    assert await world.job_state(job_id) == TaskState.SUCCEEDED
    assert await world.count("outbox") == 0


async def test_after_an_outage_a_pace_is_kept_from_then_on(ledger: Ledger, world: World) -> None:
    await world.submit([1, 2, 3, 4], start_rate=0.01)
    assert await line_of(world) == [0]
    await world.clock.advance(100_000.0)
    assert len(await line_of(world)) == 2 + 1, "one that was due, and one that is due now"
    await world.clock.advance(100.0)
    assert await line_of(world) == [0, 1, 2, 3]
    await assert_audit_is_silent(ledger.database)


async def test_a_paced_job_that_was_cancelled_is_not_lined_up_any_further(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit([1, 2, 3], start_rate=0.01)
    assert await line_of(world) == [0]
    await cancel_job(ledger, job_id, "hard", actor="operator")
    await world.clock.advance(1000.0)
    await follow_up_all(ledger)
    assert await world.claim(5) == []
    assert (await world.job_state(job_id), await world.count("outbox")) == (KILLED, 0)


async def test_many_small_jobs_are_stopped_together(ledger: Ledger, world: World) -> None:
    jobs = [await world.submit() for _ in range(5)]
    [running] = await world.claim()
    for job_id in jobs:
        mode: CancelMode = "soft" if job_id == running.task_id.job_id else "hard"
        await cancel_job(ledger, job_id, mode, actor="operator", reason=f"not {job_id % 2}")
    await follow_up(ledger, rows_max=1)
    for job_id in jobs:
        job = await world.job(job_id)
        if job_id == running.task_id.job_id:
            assert job["state"] == TaskState.RUNNING
            assert (await world.renew(running)).cancel == "soft"
        else:
            assert (job["state"], job["error"]) == (KILLED, f"not {job_id % 2}")
    await world.complete(running, "killed")
    await follow_up_all(ledger)
    await assert_audit_is_silent(ledger.database)


async def waiting_graph(world: World, queue: str) -> tuple[int, Claim]:
    """Submit a graph that has failed, and in which another branch still uses the first job."""
    undo = {"function": "app:undo"}
    spec = {"entrypoint": {"function": "app:work"}, "queue": queue, "compensation": undo}
    graph = [
        Submission(parse_spec({**spec, "depends_on": before}), local_name=name)
        for name, before in (("base", []), ("fails", ["base"]), ("runs", ["base"]))
    ]
    base, fails, runs = [a.job_id for a in await submit_batch(world.ledger, graph)]
    [first] = await world.claim(queue=queue)
    await world.succeed(first)
    await follow_up_all(world.ledger)
    claims = {claim.task_id.job_id: claim for claim in await world.claim(2, queue=queue)}
    await world.fail(claims[fails], "PermanentError")
    await follow_up_all(world.ledger)
    [undoing] = await world.claim(queue=queue)
    await world.succeed(undoing)
    await follow_up_all(world.ledger)
    return base, claims[runs]


async def test_what_has_to_wait_holds_up_nothing_else(ledger: Ledger, world: World) -> None:
    queues = ["q1", "q2", "q3"]
    graphs = [await waiting_graph(world, queue) for queue in queues]
    assert await world.count("outbox") == len(graphs)
    await world.clock.advance(20)
    large = await world.submit(replicas=3)
    await cancel_job(ledger, large, "hard", actor="operator")
    await follow_up(ledger, rows_max=1)
    assert await world.job_state(large) == KILLED
    for _, running in graphs:
        await world.succeed(running)
    await world.clock.advance(20)
    for _ in graphs:
        await follow_up(ledger, rows_max=1)
    assert [len(await world.claim(queue=queue)) for queue in queues] == [1, 1, 1]


async def test_what_is_broken_holds_up_nothing_else(ledger: Ledger, world: World) -> None:
    base, running = await waiting_graph(world, "q1")
    await world.clock.advance(10)
    await world.clock.fetch(
        "insert into holdfast.outbox (kind, job_id, created_at) select 'undone', job_id, now() "
        "from holdfast.jobs where compensates_job_id is not null"
    )
    await world.clock.fetch("alter table holdfast.undos rename to hidden")
    large = await world.submit(replicas=3)
    await cancel_job(ledger, large, "hard", actor="operator")
    with pytest.raises(UndefinedTableError):
        await follow_up(ledger)
    assert await world.job_state(large) == KILLED
    await follow_up_all(ledger)  # what is broken has been put off
    await world.clock.fetch("alter table holdfast.hidden rename to undos")
    await world.succeed(running)
    await world.clock.advance(100)
    await follow_up_all(ledger)
    [undoing] = await world.claim(queue="q1")
    assert (await world.job(undoing.task_id.job_id))["compensates_job_id"] == base


async def test_cancelled_tasks_leave_the_line_of_a_queue_that_nobody_serves(world: World) -> None:
    small, large = await world.submit(), await world.submit(replicas=1200)
    live = await world.submit([1, 2])
    await world.cancel_job(small, "soft")
    await world.cancel_job(large)
    await world.cancel_task(TaskId(live, 0))
    rows = await world.clock.fetch("select job_id, task_index from holdfast.ready")
    assert [tuple(row) for row in rows] == [(live, 1)]
    [claim] = await world.claim()
    assert claim.task_id == TaskId(live, 1)
    await assert_audit_is_silent(world.ledger.database)
