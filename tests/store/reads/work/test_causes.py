"""Why a job did not succeed, back to where it began."""

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.follow_up import follow_up_all
from holdfast.store.database import Database
from holdfast.store.reads.work import causes
from holdfast.store.reads.work.causes import Cause, list_causes
from holdfast.store.reads.work.jobs import get_job
from tests.world import World


async def prune(world: World, job_id: int) -> None:
    """Take a job away, as retention does."""
    await world.clock.fetch("set session_replication_role = replica")
    await world.clock.fetch("delete from holdfast.jobs where job_id = $1", job_id)
    await world.clock.fetch("set session_replication_role = origin")


async def causes_of(database: Database, job_id: int) -> list[Cause]:
    async with database.transaction() as tx:
        return await list_causes(tx, await get_job(tx, job_id))


async def test_a_job_that_waited_in_vain_names_the_task_that_it_began_with(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.submit([1, 2], name="extract", max_attempts=1)
    second = await world.submit(name="load", depends_on=[{"job": str(first)}])
    third = await world.submit(depends_on=[{"job": str(second)}])
    assert await causes_of(database, third) == []
    fine, failing = sorted(await world.claim(2), key=lambda claim: claim.task_id)
    await world.start(fine)
    await world.succeed(fine)
    await world.start(failing)
    error = "boom\n  a traceback"
    await world.complete(failing, "failed", error=error, error_class="TransientError")
    await follow_up_all(world.ledger)
    needed = "and this one needed it to have succeeded"
    assert await causes_of(database, third) == [
        Cause("dependency", f"job {second} (load) ended KILLED, {needed}", second),
        Cause("dependency", f"job {first} (extract) ended DEAD_LETTERED, {needed}", first),
        Cause("task", f"task {first}.1 ended DEAD_LETTERED: boom", first, 1),
    ]
    await prune(world, first)
    assert (await causes_of(database, second))[0].job_id == first
    monkeypatch.setattr(causes, "CAUSES_MAX", 1)
    assert len(await causes_of(database, third)) == 1


async def test_a_child_that_ended_with_its_parent_names_who_cancelled_that(
    world: World, database: Database
) -> None:
    parent = await world.submit(name="nightly")
    child = await world.submit_child(parent, depends_on=[str(await world.submit(queue="other"))])
    await cancel_job(world.ledger, parent, "soft", actor="eve", reason="wrong day")
    # Who was the first to ask for it is to blame.
    await cancel_job(world.ledger, parent, "hard", actor="server", reason="late")
    assert await causes_of(database, parent) == [
        Cause("cancel", "cancelled by eve: wrong day", parent, actor="eve")
    ]
    await follow_up_all(world.ledger)
    assert await causes_of(database, child) == [
        Cause("parent", f"parent job {parent} (nightly) ended KILLED", parent),
        Cause("cancel", "cancelled by eve: wrong day", parent, actor="eve"),
    ]
    await prune(world, parent)
    assert await causes_of(database, child) == [
        Cause("parent", f"parent job {parent} ended", parent)
    ]


async def test_a_child_that_waited_in_vain_blames_that_and_not_its_parent(
    world: World, database: Database
) -> None:
    parent, met = await world.submit(), await world.submit()
    needed = await world.submit(max_attempts=1, on_exhausted="fail")
    child = await world.submit_child(parent, depends_on=[str(met), str(needed)])
    await world.succeed(await world.claim_by_id(TaskId(met, 0)))
    await world.fail(await world.claim_by_id(TaskId(needed, 0)), "PermanentError")
    await follow_up_all(world.ledger)
    assert [each.job_id for each in await causes_of(database, child)] == [needed, needed]


async def test_a_job_whose_task_was_cancelled_names_the_task_and_who_did(
    world: World, database: Database
) -> None:
    job_id = await world.submit(replicas=2)
    task_id = TaskId(job_id, 1)
    await cancel_task(world.ledger, task_id, "hard", actor="eve", reason="stuck")
    await follow_up_all(world.ledger)
    assert await causes_of(database, job_id) == [
        Cause("task", f"task {task_id} was killed by eve: stuck", job_id, 1, "eve")
    ]


async def test_a_job_that_goes_well_has_no_cause(world: World, database: Database) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    await world.start(claim)
    assert await causes_of(database, job_id) == []
    await world.succeed(claim)
    assert await causes_of(database, job_id) == []


async def test_a_task_that_ran_out_of_time_was_killed_by_nobody(
    world: World, database: Database
) -> None:
    job_id = await world.submit(timeout=8.0, on_timeout="kill")
    [claim] = await world.claim()
    await world.start(claim)
    await world.pass_time(10)
    await world.run_chores()
    [cause] = await causes_of(database, job_id)
    assert (cause.actor, cause.message.startswith(f"task {job_id}.0 ended KILLED: ")) == (
        None,
        True,
    ), cause
