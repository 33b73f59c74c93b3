"""What people do is written down with it: who, what, to what, why; what changes nothing is not."""

from typing import Any

import pytest

from holdfast.errors import NotFound
from holdfast.model.submitting.policies import PolicyDefaults, TypePolicy
from holdfast.model.work.ids import TaskId
from holdfast.operations.datasets.triggers import delete_trigger, put_trigger
from holdfast.operations.datasets.versions import drop_version
from holdfast.operations.dead_letters import dead_letter_task, discard
from holdfast.operations.ending.cancel import cancel_job, cancel_task
from holdfast.operations.policies import set_policy, unset_policy
from holdfast.operations.queues import pause_queue, resume_queue
from holdfast.operations.register import Registration, drain, register
from holdfast.operations.submitting.replay import replay
from holdfast.operations.submitting.rerun import rerun
from holdfast.operations.submitting.resume import resume
from holdfast.store.reads.actions import ActionFilter, list_actions
from tests.datasets import Library
from tests.operations.datasets.test_triggers import a_template
from tests.operations.letters import dead_inputs, found
from tests.world import World


async def told(world: World, **wanted: Any) -> list[str]:
    """Tell what was done, the oldest first."""
    async with world.ledger.database.transaction() as tx:
        rows = await list_actions(tx, ActionFilter(**wanted), count_max=100)
    return [f"{row.actor} {row.action} {row.subject_kind} {row.subject}" for row in rows][::-1]


async def test_cancels_are_written_down_once_with_their_reason(world: World) -> None:
    job_id, other = await world.submit([1, 2]), await world.submit()
    ledger = world.ledger
    for _ in range(2):
        await cancel_task(ledger, TaskId(job_id, 1), "hard", actor="ann", reason="wrong input")
        await cancel_job(ledger, job_id, "soft", actor="bob", reason="too dear")
    await dead_letter_task(ledger, TaskId(other, 0), actor="eve", reason="look at it")
    with pytest.raises(NotFound):
        await cancel_job(ledger, 10**6, "soft", actor="eve", reason="a typing error")
    assert await told(world) == [
        f"ann cancel task {job_id}.1",
        f"bob cancel job {job_id}",
        f"eve dead_letter task {other}.0",
    ]
    async with ledger.database.transaction() as tx:
        [done] = await list_actions(tx, ActionFilter(actor="bob"), count_max=10)
    assert (done.reason, done.facts) == ("too dear", '{"mode": "soft"}')


async def test_what_a_parent_takes_with_it_is_nobodys_doing(world: World) -> None:
    parent = await world.submit()
    child = await world.submit_child(parent)
    await cancel_job(world.ledger, parent, "hard", actor="ann")
    await world.run_chores()
    assert (await world.job(child))["cancel_mode"] == "hard"
    assert await told(world) == [f"ann cancel job {parent}"]


async def test_what_runs_again_is_written_down_by_how_it_was_asked_for(world: World) -> None:
    ledger = world.ledger
    job_id = await dead_inputs(world, 3, dead=2)
    first, second = await found(world)
    await replay(ledger, [first], actor="ann", dry_run=True)
    [again] = await replay(ledger, [first], actor="ann")
    await discard(ledger, [second], actor="bob")
    await rerun(ledger, job_id, actor="cy")
    broken = await dead_inputs(world, 2, dead=1, queue="other")
    await resume(ledger, broken, actor="dee")
    assert await told(world) == [
        f"ann replay job {job_id}",
        f"bob discard job {job_id}",
        f"cy rerun job {job_id}",
        f"dee resume job {broken}",
    ]
    async with ledger.database.transaction() as tx:
        *_, first_done = await list_actions(tx, ActionFilter(), count_max=10)
    assert first_done.facts == f'{{"job_ids": ["{again.job_id}"]}}'


async def test_queues_workers_and_policies_are_written_down_when_they_change(world: World) -> None:
    ledger, policy = world.ledger, TypePolicy(PolicyDefaults(max_retries_failure=3))
    await register(ledger, Registration("w1", "w", "h", ("q",)))
    for _ in range(2):
        await pause_queue(ledger, "q", actor="ann")
        await set_policy(ledger, "mail", policy, actor="ann")
    for _ in range(2):
        await resume_queue(ledger, "q", actor="bob")
        await unset_policy(ledger, "mail", actor="bob")
    await drain(ledger, "w1", actor="w1", is_own=True)  # it leaves on its own
    await drain(ledger, "w1", actor="cy")
    assert not await drain(ledger, "nobody", actor="cy")
    assert await told(world) == [
        "ann pause_queue queue q",
        "ann set_policy type mail",
        "bob resume_queue queue q",
        "bob unset_policy type mail",
        "cy drain_worker worker w1",
    ]


async def test_changes_of_datasets_are_written_down(world: World) -> None:
    library, ledger = Library(world), world.ledger
    await library.create(versions=2)
    await put_trigger(ledger, "events", "look", submission=a_template(), actor="ann")
    for _ in range(2):
        await library.cut_over(2)
        await delete_trigger(ledger, "events", "look", actor="bob")
        await drop_version(ledger, "events", 1, actor="cy")
    assert [line.partition(" ")[2] for line in await told(world)] == [
        "put_trigger dataset events",
        "cut_over dataset events",
        "delete_trigger dataset events",
        "drop_version dataset events",
    ]
