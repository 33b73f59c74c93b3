"""Reports of where an attempt stands: forward only, and only from whoever holds the lease."""

from datetime import timedelta
from typing import cast
from uuid import UUID, uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.report import Recorded, Report, report
from tests.world import World, fence_of

BUILDING, RUNNING = TaskState.BUILDING, TaskState.RUNNING


async def test_a_report_moves_the_task_and_writes_one_event(world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    assert (await world.report(mine, BUILDING)).is_news
    assert (await world.task(mine.task_id)).state == BUILDING
    assert (await world.report(mine, RUNNING)).is_news
    task = await world.task(mine.task_id)
    assert task.state == RUNNING
    assert task.attempts[0]["started_at"] is not None
    assert await world.story(job_id) == ["claimed", "building", "started"]


async def times_of(world: World, job_id: int) -> tuple[timedelta, timedelta]:
    """Tell how long after its claim a task started, and for how long it ran."""
    [attempt] = (await world.task(TaskId(job_id, 0))).attempts
    started_at = attempt["started_at"]
    return started_at - attempt["created_at"], attempt["finished_at"] - started_at


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@pytest.mark.parametrize(("run", "start", "took"), [(300, 700, 300), (0, 1000, 0), (9999, 0, 1000)])
async def test_a_start_that_comes_with_the_end_lies_as_long_ago_as_the_worker_says(
    world: World, status: str, run: int, start: int, took: int
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.clock.advance(1000)
    fields = {"start_reported": False, "run": timedelta(seconds=run)}
    await world.complete(mine, status, **fields)
    began, ran = await times_of(world, job_id)
    # Not before the claim; a while may pass by itself.
    assert began.total_seconds() == pytest.approx(start, abs=60)
    assert ran.total_seconds() == pytest.approx(took, abs=60)
    events = await world.clock.fetch(
        "select ts from holdfast.events where job_id = $1 and task_index = 0 order by seq", job_id
    )
    assert [row["ts"] for row in events] == sorted(row["ts"] for row in events)


async def test_a_start_that_is_reported_lies_as_long_ago_as_the_worker_says(
    world: World, ledger: Ledger
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.clock.advance(1000)
    [answer] = await report(ledger, [Report(fence_of(mine), RUNNING, timedelta(seconds=400))])
    assert isinstance(answer, Recorded)
    await world.clock.advance(500)
    await world.succeed(mine)
    began, ran = await times_of(world, job_id)
    assert began.total_seconds() == pytest.approx(600, abs=60)
    assert ran.total_seconds() == pytest.approx(900, abs=60)


async def test_a_step_may_be_skipped(world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    assert (await world.start(mine)).is_news
    assert await world.story(job_id) == ["claimed", "started"]


async def test_a_report_at_or_behind_the_recorded_state_changes_nothing(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    before = await world.dump()
    assert not (await world.start(mine)).is_news
    assert not (await world.report(mine, BUILDING)).is_news
    assert await world.dump() == before


async def test_stale_tokens_and_attempts_conflict_and_change_nothing(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=2)
    mine, other = await world.claim(2)
    before = await world.dump()
    task_id, attempt, token = fence_of(mine)
    strangers = [
        Fence(task_id, attempt, uuid4()),
        Fence(task_id, attempt + 1, token),
        Fence(other.task_id, attempt, token),
        Fence(task_id, attempt, other.lease_token),
        Fence(TaskId(10**6, 0), 0, token),
        Fence(TaskId(task_id.job_id, 99), 0, token),
    ]
    answers = await report(ledger, [Report(fence, RUNNING) for fence in strangers])
    assert all(isinstance(answer, LeaseConflict) for answer in answers)
    assert await world.dump() == before


async def test_an_old_attempt_cannot_start_the_new_one(world: World) -> None:
    await world.submit(max_retries_failure=1, backoff={"base": 0.0})
    [old] = await world.claim()
    await world.fail(old)
    await world.run_chores()
    [new] = await world.claim(worker="w2")
    assert new.attempt == 1
    with pytest.raises(LeaseConflict):
        await world.start(old)
    assert (await world.task(new.task_id)).state == TaskState.ASSIGNED


async def test_a_report_on_an_ending_lease_changes_nothing(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id)
    before = await world.dump()
    assert not (await world.start(mine)).is_news
    assert await world.dump() == before


async def test_duplicates_and_both_steps_in_one_batch_are_recorded_once(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    fence = fence_of(mine)
    answers = await report(
        ledger,
        [Report(fence, RUNNING), Report(fence, BUILDING), Report(fence, RUNNING)],
    )
    assert all(isinstance(answer, Recorded) for answer in answers)
    assert await world.story(job_id) == ["claimed", "building", "started"]
    job = await world.job(job_id)
    assert (job["assigned"], job["building"], job["running"]) == (0, 0, 1)


async def test_a_stranger_beside_the_holder_in_one_batch_is_refused_alone(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    stranger = fence_of(mine)._replace(lease_token=uuid4())
    answers = await report(ledger, [Report(stranger, RUNNING), Report(fence_of(mine), RUNNING)])
    assert isinstance(answers[0], LeaseConflict)
    assert answers[1] == Recorded(mine.task_id, is_news=True)
    assert await world.story(job_id) == ["claimed", "started"]


async def test_bad_reports_name_their_field_and_are_refused_alone(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    good = fence_of(mine)
    before = await world.dump()
    bad = [
        ("state", Report(good, TaskState.SUCCEEDED)),
        ("state", Report(good, TaskState.PENDING)),
        ("state", Report(good, 99)),  # type: ignore[arg-type]
        ("lease_token", Report(good._replace(lease_token=cast(UUID, "abc")), RUNNING)),
        ("attempt", Report(good._replace(attempt=-1), RUNNING)),
        ("attempt", Report(good._replace(attempt=2**31), RUNNING)),
        ("task_id", Report(good._replace(task_id=TaskId(-4, 0)), RUNNING)),
        ("task_id", Report(good._replace(task_id=TaskId(1, 2**31)), RUNNING)),
    ]
    answers = await report(ledger, [item for _, item in bad])
    for (field, _), answer in zip(bad, answers, strict=True):
        assert isinstance(answer, Invalid)
        assert answer.field == field
    assert await world.dump() == before
    _, recorded = await report(ledger, [bad[0][1], Report(good, RUNNING)])
    assert recorded == Recorded(mine.task_id, is_news=True)


async def test_run_time_counts_from_building_on(world: World) -> None:
    await world.submit(timeout=60.0)
    [mine] = await world.claim()
    assert (await world.lease(mine.task_id))["run_deadline_at"] is None  # type: ignore[index]
    await world.report(mine, BUILDING)
    first = (await world.lease(mine.task_id))["run_deadline_at"]  # type: ignore[index]
    await world.clock.advance(5)
    await world.start(mine)
    assert (await world.lease(mine.task_id))["run_deadline_at"] == first  # type: ignore[index]
    assert first is not None
