"""Completions: fenced, answered the same however often they come, with one effect."""

from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict, TooLarge
from holdfast.ledger.keys import request_key
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.ending import complete as complete_module
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.notes import Note
from holdfast.store.database import Database
from tests.datasets import Library, an_entry
from tests.world import World, fence_of


async def test_success_keeps_the_result_and_ends_everything_at_once(world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    assert (await world.succeed(mine, '{"answer":42}')).accepted
    task = await world.task(mine.task_id)
    assert (task.state, task.finished) == (TaskState.SUCCEEDED, True)
    [attempt] = task.attempts
    assert (attempt["state"], attempt["exit_code"]) == (TaskState.SUCCEEDED, 0)
    assert attempt["released_at"] == attempt["finished_at"]
    assert await world.lease(mine.task_id) is None
    [row] = await world.clock.fetch("select result from holdfast.tasks")
    assert row[0] == '{"answer":42}'
    assert await world.story(job_id, -1) == ["submitted", "started", "succeeded"]


async def test_a_failure_keeps_exit_code_error_class_and_stage(world: World) -> None:
    await world.submit(on_exhausted="fail")
    [mine] = await world.claim()
    await world.complete(
        mine, "failed", exit_code=3, error="boom", error_class="ValueError", stage="output"
    )
    [attempt] = (await world.task(mine.task_id)).attempts
    kept = [attempt[field] for field in ("state", "exit_code", "error", "error_class", "stage")]
    assert kept == [TaskState.FAILED, 3, "boom", "ValueError", "output"]


@pytest.mark.parametrize("status", ["succeeded", "failed"])
async def test_a_completion_without_a_start_records_the_start_first(
    world: World, status: str
) -> None:
    job_id = await world.submit(on_exhausted="fail")
    [mine] = await world.claim()
    await world.complete(mine, status)
    assert await world.story(job_id) == ["claimed", "started", status]
    [attempt] = (await world.task(mine.task_id)).attempts
    assert attempt["started_at"] is not None


@pytest.mark.parametrize(
    ("status", "stage"),
    [("failed", "fetch"), ("failed", "input"), ("worker_failed", None), ("handed_back", None)],
)
async def test_an_end_before_user_code_records_no_start(
    world: World, status: str, stage: Any
) -> None:
    job_id = await world.submit(on_exhausted="fail")
    [mine] = await world.claim()
    await world.complete(mine, status, stage=stage)
    assert "started" not in await world.story(job_id)
    assert (await world.task(mine.task_id)).attempts[0]["started_at"] is None


@pytest.mark.parametrize(
    "status", ["succeeded", "failed", "killed", "worker_failed", "handed_back"]
)
async def test_a_repeat_is_answered_as_the_first_time_without_a_second_effect(
    world: World, status: str
) -> None:
    await world.submit(max_retries_failure=1, max_retries_preemption=1)
    [mine] = await world.claim()
    note = (Note("progress", "1"),)
    first = await world.complete(mine, status, events=note)
    before = await world.dump()
    assert len(before["notes"]) == 1
    assert await world.complete(mine, status, events=note) == first
    assert await world.dump() == before


@pytest.mark.parametrize(("first", "second"), [("succeeded", "failed"), ("failed", "succeeded")])
async def test_another_story_than_the_first_is_a_conflict(
    world: World, first: str, second: str
) -> None:
    await world.submit(max_retries_failure=1)
    [mine] = await world.claim()
    await world.complete(mine, first)
    before = await world.dump()
    with pytest.raises(LeaseConflict):
        await world.complete(mine, second)
    assert await world.dump() == before


async def test_a_late_repeat_does_not_touch_the_next_attempt(world: World) -> None:
    await world.submit(max_retries_failure=1, backoff={"base": 0.0})
    [old] = await world.claim()
    await world.fail(old)
    await world.run_chores()
    [new] = await world.claim(worker="w2")
    before = await world.dump()
    assert (await world.fail(old)).accepted
    assert await world.dump() == before
    assert (await world.succeed(new)).accepted


async def test_strangers_conflict_and_change_nothing(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=2)
    mine, other = await world.claim(2)
    task_id, attempt, token = fence_of(mine)
    before = await world.dump()
    fences = [
        Fence(task_id, attempt, uuid4()),
        Fence(task_id, attempt + 1, token),
        Fence(task_id, attempt, other.lease_token),
        Fence(other.task_id, attempt, token),
        Fence(TaskId(10**6, 0), 0, token),
        Fence(TaskId(task_id.job_id, 9), 0, token),
    ]
    for status in ("succeeded", "failed", "handed_back"):
        items = [Completion(fence, status, events=(Note("n"),)) for fence in fences]
        answers = await complete(ledger, items)
        assert all(isinstance(answer, LeaseConflict) for answer in answers)
    assert await world.dump() == before


async def test_an_attempt_whose_lease_expired_can_no_longer_complete(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.pass_time(35)
    before = await world.dump()
    with pytest.raises(LeaseConflict):
        await world.succeed(mine)
    assert await world.dump() == before


async def test_a_stranger_beside_a_repeat_of_the_same_attempt_is_a_conflict(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.fail(mine)
    stranger = fence_of(mine)._replace(lease_token=uuid4())
    answers = await complete(
        ledger, [Completion(fence_of(mine), "failed"), Completion(stranger, "failed")]
    )
    assert answers[0] == Completed(mine.task_id, accepted=True)
    assert isinstance(answers[1], LeaseConflict)


async def test_duplicates_in_one_batch_have_one_effect(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(inputs=[1, 2], on_exhausted="fail")
    mine, other = await world.claim(2)
    items = [
        Completion(fence_of(mine), "succeeded", events=(Note("n"),)),
        Completion(fence_of(other), "failed", error="boom"),
        Completion(fence_of(mine), "succeeded", events=(Note("n"),)),
        Completion(fence_of(mine), "failed"),
        Completion(fence_of(other), "failed", error="boom"),
    ]
    answers = await complete(ledger, items)
    assert all(isinstance(answer, Completed) and answer.accepted for answer in answers)
    assert await world.story(job_id, 0) == ["claimed", "started", "succeeded"]
    assert await world.story(job_id, 1) == ["claimed", "started", "failed"]
    job = await world.job(job_id)
    assert (job["succeeded"], job["failed"], job["running"]) == (1, 1, 0)
    assert await world.count("notes") == 1


async def test_the_holder_and_a_stranger_in_one_batch_are_told_apart(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    stranger = fence_of(mine)._replace(lease_token=uuid4())
    answers = await complete(
        ledger, [Completion(stranger, "failed"), Completion(fence_of(mine), "succeeded")]
    )
    assert isinstance(answers[0], LeaseConflict)
    assert answers[1] == Completed(mine.task_id, accepted=True)


async def test_a_task_handed_back_costs_nothing_and_is_ready_at_once(world: World) -> None:
    job_id = await world.submit(max_retries_preemption=0)
    for attempt in range(8):
        [mine] = await world.claim()
        assert mine.attempt == attempt
        assert (await world.complete(mine, "handed_back")).accepted
    task = await world.task(TaskId(job_id, 0))
    assert (task.state, task.preemption_count, task.failure_count) == (TaskState.PENDING, 0, 0)
    assert await world.story(job_id) == ["claimed", "worker_failed", "retried"] * 8
    assert await world.job_state(job_id) == TaskState.RUNNING


async def test_a_worker_that_could_not_run_it_is_charged_as_a_preemption(world: World) -> None:
    await world.submit(max_retries_preemption=1, on_exhausted="fail")
    [first] = await world.claim()
    await world.complete(first, "worker_failed", error="disk full")
    [second] = await world.claim()
    assert second.preemption_count == 1
    await world.complete(second, "worker_failed", error="disk full")
    task = await world.task(second.task_id)
    assert (task.state, task.preemption_count) == (TaskState.WORKER_FAILED, 2)
    assert task.attempts[1]["error"] == "disk full"


async def test_killed_without_being_asked_is_a_lost_attempt(world: World) -> None:
    await world.submit(max_retries_preemption=1)
    [mine] = await world.claim()
    await world.complete(mine, "killed")
    task = await world.task(mine.task_id)
    assert (task.state, task.preemption_count) == (TaskState.PENDING, 1)
    assert task.attempts[0]["state"] == TaskState.WORKER_FAILED


async def test_any_report_on_an_ending_lease_confirms_that_the_process_is_gone(
    world: World,
) -> None:
    for status in ("succeeded", "failed", "killed", "worker_failed", "handed_back"):
        job_id = await world.submit()
        [mine] = await world.claim()
        await world.start(mine)
        await world.cancel_job(job_id)
        assert await world.complete(mine, status) == Completed(mine.task_id, accepted=False)
        assert await world.lease(mine.task_id) is None
        task = await world.task(mine.task_id)
        assert (task.state, task.attempts[0]["state"]) == (TaskState.KILLED, TaskState.KILLED)
        assert task.attempts[0]["released_at"] is not None
        before = await world.dump()
        with pytest.raises(LeaseConflict):
            await world.complete(mine, status)
        assert await world.dump() == before


async def test_user_events_travel_with_an_accepted_completion_only(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id)
    await world.complete(mine, "failed", events=(Note("progress", "1"),))
    assert await world.count("notes") == 0


def bad_completions(good: Fence) -> list[tuple[str, Completion]]:
    """List completions that cannot be right, each with the field that is wrong."""
    wrong: Any = "wrong"
    return [
        ("task_id", Completion(good._replace(task_id=TaskId(0, 0)), "succeeded")),
        ("attempt", Completion(good._replace(attempt=-1), "succeeded")),
        ("lease_token", Completion(good._replace(lease_token=wrong), "succeeded")),
        ("status", Completion(good, wrong)),
        ("stage", Completion(good, "failed", stage=wrong)),
        ("exit_code", Completion(good, "failed", exit_code=2**31)),
        ("exit_code", Completion(good, "failed", exit_code=-(2**31) - 1)),
        ("exit_code", Completion(good, "failed", exit_code=wrong)),
        ("exit_code", Completion(good, "succeeded", exit_code=1)),
        ("error", Completion(good, "failed", error="a\x00b")),
        ("error", Completion(good, "failed", error="x" * (64 << 10) + "x")),
        ("error_class", Completion(good, "failed", error_class="\x00")),
        ("result", Completion(good, "failed", result="1")),
        ("result", Completion(good, "succeeded", result="{")),
        ("result", Completion(good, "succeeded", result='"\\u0000"')),
        ("result", Completion(good, "succeeded", result='"' + "x" * (1 << 20) + '"')),
        ("events.kind", Completion(good, "succeeded", events=(Note("\x00"),))),
        ("events.payload", Completion(good, "succeeded", events=(Note("n", "{"),))),
    ]


async def test_bad_completions_name_their_field_and_are_refused_alone(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    before = await world.dump()
    bad = bad_completions(fence_of(mine))
    answers = await complete(ledger, [item for _, item in bad])
    for (field, _), answer in zip(bad, answers, strict=True):
        assert isinstance(answer, Invalid)
        assert answer.field == field
    assert await world.dump() == before
    *_, good = await complete(ledger, [bad[0][1], Completion(fence_of(mine), "succeeded")])
    assert good == Completed(mine.task_id, accepted=True)


async def test_a_result_over_the_limit_says_the_limit(database: Database, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    small = Ledger(database, Limits(result_bytes_max=3))
    [answer] = await complete(small, [Completion(fence_of(mine), "succeeded", result="1234")])
    assert isinstance(answer, TooLarge)
    assert (answer.field, answer.size, answer.limit) == ("result", 4, 3)


async def test_a_strangers_success_does_not_end_a_running_attempt(world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    await world.start(mine)
    before = await world.dump()
    for wrong in (mine._replace(lease_token=uuid4()), mine._replace(attempt=1)):
        with pytest.raises(LeaseConflict):
            await world.succeed(wrong)
    assert await world.dump() == before
    assert await world.story(job_id) == ["claimed", "started"]


async def test_under_a_key_no_more_is_committed_than_one_transaction_takes(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete_module, "OUTPUTS_PER_WRITE_MAX", 3)
    library = Library(world)
    await library.create()
    for _ in range(2):
        await library.submit()
    items = [
        Completion(
            fence_of(claim),
            "succeeded",
            outputs=(an_entry(f"a{place}"), an_entry(f"b{place}")),
        )
        for place, claim in enumerate(await world.claim(2))
    ]
    keyed = request_key("complete", "w1", "k", request=items)
    before = await world.dump()
    with pytest.raises(TooLarge, match="outputs: 4 entries under one key"):
        await complete(ledger, items, keyed)
    assert await world.dump() == before
    done = [Completed(item.fence.task_id, accepted=True) for item in items]
    assert await complete(ledger, items) == done


async def test_of_failures_in_one_batch_the_first_that_was_reported_is_the_jobs_error(
    ledger: Ledger, world: World
) -> None:
    job_id = await world.submit(inputs=[1, 2, 3], on_exhausted="fail")
    claims = await world.claim(3)
    reports = [
        Completion(fence_of(claims[index]), "failed", error=f"task {index}") for index in (1, 2, 0)
    ]
    await complete(ledger, reports)
    assert (await world.job(job_id))["error"] == "task 1"


@pytest.mark.parametrize(
    ("second", "kind", "count", "is_over"),
    [
        ("MissingTool", "MissingTool", 5, True),
        (None, "MissingTool", 5, False),
        ("BuildUnavailable", "BuildUnavailable", 20, True),
        ("BuildUnavailable", "BuildUnavailable", 19, False),
    ],
)
async def test_what_cannot_be_built_many_times_in_a_row_ends_the_task(
    world: World, second: str | None, kind: str, count: int, is_over: bool
) -> None:
    job_id = await world.submit(max_retries_preemption=100, backoff={"base": 0.0})
    for error_class in (kind, second, *[kind] * (count - 2)):
        [mine] = await world.claim()
        lost = {"error": "there is no uv", "error_class": error_class, "stage": "fetch"}
        await world.complete(mine, "worker_failed", **lost)
    task = await world.task(TaskId(job_id, 0))
    assert (task.finished, task.preemption_count) == (is_over, count)
    assert [each["error_class"] for each in task.attempts][1] == second
    if is_over:
        assert await world.job_state(job_id) == TaskState.DEAD_LETTERED
        assert (await world.job(job_id))["error"] == "there is no uv"
