"""Attempts that never arrived on their workers: ended at once, for nothing, and placed again."""

import pytest

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.placed.leadership import Deposed, resign
from holdfast.operations.placed.undelivered import (
    Undelivered,
    end_undelivered,
    find_never_offered,
)
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.placed_world import PlacedWorld


async def assigned(cluster: PlacedWorld) -> tuple[TaskId, Undelivered]:
    """Have a task placed on `w1`, which has not heard of it."""
    task_id = TaskId(await cluster.submit(), 0)
    assert await cluster.place() == {task_id: "w1"}
    return task_id, Undelivered("w1", await cluster.fence(task_id))


async def test_what_never_arrived_is_placed_elsewhere_at_once_and_costs_nothing(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, lost = await assigned(cluster)
    await cluster.add("w2")
    assert await end_undelivered(cluster.ledger, await cluster.term(), [lost]) == [True]
    task = await cluster.task(task_id)
    assert (task.state, task.preemption_count) == (TaskState.PENDING, 0)
    [attempt] = task.attempts
    assert attempt["state"] == TaskState.WORKER_FAILED
    assert attempt["error"] == "it did not arrive on its worker"
    assert attempt["released_at"] is not None
    assert await cluster.place() == {task_id: "w2"}
    # A call that was prepared before this ended it would bring a token that nobody takes any more.
    assert await end_undelivered(cluster.ledger, await cluster.term(), [lost]) == [False]
    await assert_audit_is_silent(database)


async def test_what_is_on_its_worker_or_on_another_one_is_left_alone(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1")
    task_id, named = await assigned(cluster)
    other = Undelivered("w2", named.fence)
    before = await cluster.dump()
    assert await end_undelivered(cluster.ledger, await cluster.term(), [other]) == [False]
    assert await cluster.dump() == before
    await cluster.beat("w1")
    before = await cluster.dump()
    assert await end_undelivered(cluster.ledger, await cluster.term(), [named]) == [False]
    assert await cluster.dump() == before
    assert (await cluster.task(task_id)).state == TaskState.ASSIGNED


async def test_a_deposed_leader_ends_nothing(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    _, lost = await assigned(cluster)
    term = await cluster.term()
    await resign(cluster.ledger, term.leader)
    before = await cluster.dump()
    with pytest.raises(Deposed):
        await end_undelivered(cluster.ledger, term, [lost])
    assert await cluster.dump() == before


async def test_a_task_whose_cancel_is_under_way_is_gone_with_that(
    cluster: PlacedWorld, database: Database
) -> None:
    await cluster.add("w1")
    task_id, lost = await assigned(cluster)
    await cluster.cancel_task(task_id, "hard")
    assert await cluster.lease(task_id) is not None
    assert await end_undelivered(cluster.ledger, await cluster.term(), [lost]) == [True]
    assert await cluster.lease(task_id) is None
    assert (await cluster.task(task_id)).state == TaskState.KILLED
    await assert_audit_is_silent(database)


async def test_what_a_worker_has_never_been_offered_is_what_it_has_not_named_either(
    cluster: PlacedWorld,
) -> None:
    await cluster.add("w1")
    _, named = await assigned(cluster)
    await cluster.beat("w1")
    [(_, offered), (ending_id, ending), (_, new)] = [await assigned(cluster) for _ in range(3)]
    await cluster.cancel_task(ending_id, "hard")
    found = await find_never_offered(cluster.ledger, "w1", frozenset({offered.fence}))
    assert found == {ending.fence, new.fence}
    assert await find_never_offered(cluster.ledger, "w2", frozenset()) == set()
    assert named.fence not in found
