"""The table of ended attempts through its functions."""

from typing import Any

from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.store.database import Transaction
from holdfast.store.tables.work.attempts import (
    AttemptRun,
    AttemptUsage,
    EndedAttempt,
    Success,
    end_attempts,
    find_attempt,
    find_ended_attempts,
    keep_usage,
    succeed_attempts,
)
from tests.world import World, fence_of


def an_end(task_id: TaskId, state: TaskState, **changes: Any) -> EndedAttempt:
    return EndedAttempt(
        task_id,
        state,
        finished=True,
        failure_count=0,
        preemption_count=0,
        actor="operator",
        cause="enough",
        exit_code=None,
        error=None,
        error_class=None,
        stage=None,
        reported=False,
        released=True,
    )._replace(**changes)


async def test_a_success_ends_the_attempt_under_its_token_alone(
    world: World, tx: Transaction
) -> None:
    await world.submit([1, 2])
    mine, other = await world.claim(2)
    await world.start(mine)
    wrong = fence_of(other)._replace(lease_token=mine.lease_token)
    ended = await succeed_attempts(tx, [Success(wrong, "1"), Success(fence_of(mine), "42")])
    assert (ended.positions, ended.worker_ids) == ([2], ["w1"])
    assert min(ended.seconds or [-1]) >= 0
    assert set(await succeed_attempts(tx, [Success(wrong, "1")])) == {None}
    assert await find_ended_attempts(tx, [fence_of(mine), wrong]) == {
        fence_of(mine): TaskState.SUCCEEDED
    }


async def test_an_attempt_that_ends_otherwise_keeps_its_lease_until_released(
    world: World, tx: Transaction
) -> None:
    await world.submit()
    [mine] = await world.claim()
    ended = an_end(mine.task_id, TaskState.KILLED, released=False)
    assert await end_attempts(tx, [ended]) == [
        AttemptRun(*mine.task_id, None, "w1", TaskState.KILLED, None, None)
    ]
    assert await find_attempt(tx, mine.task_id, None) == (0, True)
    assert await find_attempt(tx, mine.task_id, 1) is None
    assert await find_ended_attempts(tx, [fence_of(mine)]) == {}


async def test_what_an_attempt_has_used_is_kept_beside_what_it_was_given(
    world: World, tx: Transaction
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await keep_usage(tx, [AttemptUsage(mine.task_id, 0, '{"http": 1}', '["0"]')])
    await keep_usage(tx, [AttemptUsage(mine.task_id, 0, usage='{"cpu": 2}', build="{}")])
    [row] = await tx.connection.fetch(
        "select ports::text, devices::text, usage::text, build::text "
        "from holdfast.attempt_usage where job_id = $1",
        job_id,
    )
    assert tuple(row) == ('{"http": 1}', '["0"]', '{"cpu": 2}', "{}")
