"""Jobs that are older than their type may be."""

import pytest

from holdfast.errors import Invalid
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.policies import PolicyLimits, TypePolicy
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState, TaskState
from holdfast.operations.policies import set_policy
from holdfast.operations.upkeep import ages
from holdfast.operations.upkeep.ages import Ages
from holdfast.store.database import Database
from tests.limits import set_limit
from tests.world import World


@pytest.fixture(autouse=True)
async def a_minute_at_most(ledger: Ledger) -> None:
    """Jobs of type order may be a minute old."""
    policy = TypePolicy(limits=PolicyLimits(age=60.0))
    await set_policy(ledger, "order", policy, actor="ann")


async def test_what_has_not_finished_in_time_is_dead_lettered(ledger: Ledger, world: World) -> None:
    job_id = await world.submit([1, 2, 3, 4], type="order", on_exhausted="fail")
    other = await world.submit(type="other", queue="other")
    done, running, assigned = await world.claim(3)
    await world.succeed(done)
    await world.start(running)
    await world.clock.advance(59)
    old = Ages(ledger)
    assert await old.look() == 0
    assert await world.count("dead_letters") == 0
    await world.clock.advance(1)
    assert [await old.look(), await old.look()] == [1, 0]
    letters = {letter.id.task_index: letter for letter in await world.dead_letters()}
    assert {index: letter.stage for index, letter in letters.items()} == {
        running.task_id.task_index: "exec",
        assigned.task_id.task_index: "fetch",
        3: None,
    }
    assert {letter.reason_code for letter in letters.values()} == {"policy_violation"}
    assert "has not finished within 60 s" in str(letters[3].last_error)
    lease = await world.lease(running.task_id)
    assert lease is not None
    assert lease["ending"]
    assert await world.job_state(job_id) == JobState.DEAD_LETTERED
    assert await world.job_state(other) == JobState.PENDING


async def test_a_job_that_was_cancelled_is_left_to_its_cancel(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(type="order")
    [mine] = await world.claim()
    await world.start(mine)
    await world.cancel_job(job_id, mode="soft")
    await world.clock.advance(100)
    await Ages(ledger).look()
    assert await world.count("dead_letters") == 0
    assert await world.job_state(job_id) == JobState.RUNNING


async def test_a_task_that_somebody_holds_is_left_for_the_next_time(
    ledger: Ledger, world: World, database: Database
) -> None:
    job_id, after = [await world.submit([1, 2], type="order") for _ in range(2)]
    await world.clock.advance(100)
    old = Ages(ledger)
    hold = "select from holdfast.tasks where job_id = $1 and task_index = 0 for update"
    async with database.transaction() as other:
        await other.connection.execute(hold, job_id)
        assert await old.look() == 0
        assert await world.job_state(after) == JobState.DEAD_LETTERED
        assert await world.count("dead_letters") == 3
    assert await old.look() == 2
    assert await world.job_state(job_id) == JobState.DEAD_LETTERED


async def test_what_waits_behind_a_limit_leaves_the_line(ledger: Ledger, world: World) -> None:
    await set_limit(world.clock, "owners", "owner", 1, only_for="ann")
    await world.submit([*range(8)], type="order", owner="ann")
    [running] = await world.claim(9)
    await world.start(running)
    unserved = await world.submit([1, 2], type="order", owner="bob", queue="other")
    assert [await world.count("gated"), await world.count("ready")] == [7, 2]
    await world.clock.advance(61)
    assert await Ages(ledger).look() == 2
    assert [await world.count("gated"), await world.count("ready")] == [0, 0]
    assert await world.job_state(unserved) == JobState.DEAD_LETTERED
    later = await world.submit(type="other", owner="ann")
    await world.pass_time(120)  # until the killed attempt has let go of its slot
    [claim] = await world.claim(9)
    assert claim.task_id.job_id == later


async def test_many_jobs_are_walked_through_from_the_oldest(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ages, "JOBS_MAX", 2)
    monkeypatch.setattr(ages, "TASKS_MAX", 2)
    old = [await world.submit([1, 2, 3], type="order") for _ in range(3)]
    kept = await world.submit(type="other")
    await world.clock.advance(100)
    young = [await world.submit(type="order") for _ in range(2)]
    looks = Ages(ledger)
    assert [await looks.look() for _ in range(3)] == [2, 1, 0]
    states = [await world.job_state(job_id) for job_id in (*old, kept, *young)]
    assert states == [JobState.DEAD_LETTERED] * 3 + [JobState.PENDING] * 3
    assert (await world.task(TaskId(old[0], 2))).state == TaskState.DEAD_LETTERED


@pytest.mark.parametrize("age", [0.0, -1.0, float("nan"), float("inf"), 1e12])
async def test_an_age_that_cannot_be_is_refused(ledger: Ledger, age: float) -> None:
    policy = TypePolicy(limits=PolicyLimits(age=age))
    with pytest.raises(Invalid) as refused:
        await set_policy(ledger, "order", policy, actor="ann")
    assert refused.value.field == "limits.age"
