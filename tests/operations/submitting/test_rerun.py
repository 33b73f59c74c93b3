"""A job is submitted again: whole, or with what did not succeed; once per key, however large."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused, NotFound, TooLarge
from holdfast.ledger.keys import RequestKey, request_key
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.submitting import resubmission
from holdfast.operations.submitting.rerun import Rerun, rerun
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.datasets import Library
from tests.world import World


def a_key(key: str, request: Any = 1) -> RequestKey | None:
    return request_key("rerun", "ann", key, request=request)


async def some_failed(world: World, **fields: Any) -> int:
    """Submit the inputs 0 to 3; the odd ones fail."""
    fields = {"max_attempts": 1, "on_exhausted": "fail", "max_task_failures": 4} | fields
    job_id = await world.submit([0, 1, 2, 3], **fields)
    for claim in await world.claim(4):
        await world.start(claim)
        if claim.task_id.task_index % 2:
            await world.fail(claim)
        else:
            await world.succeed(claim)
    return job_id


async def inputs_of(world: World, job_id: int | None) -> list[Any]:
    rows = await world.clock.fetch(
        "select input::text from holdfast.tasks where job_id = $1 order by task_index", job_id
    )
    return [None if row[0] is None else json.loads(row[0]) for row in rows]


async def test_a_job_is_submitted_again_as_it_was(ledger: Ledger, world: World) -> None:
    job_id = await some_failed(world, labels={"team": "search"}, idempotency_key="once")
    made = await rerun(ledger, job_id, actor="ann")
    assert made == Rerun(job_id, made.job_id, 4)
    old, new = await world.job(job_id), await world.job(made.job_id or 0)
    assert new["replay_of"] == job_id
    assert new["idempotency_key"] is None
    for column in ("name", "type", "owner", "queue", "labels", "correlation_id", "num_tasks"):
        assert new[column] == old[column], column
    assert await inputs_of(world, made.job_id) == [0, 1, 2, 3]
    assert (await world.story(job_id, -1))[-1] == "replayed"
    assert len(await world.claim(10)) == 4
    await assert_audit_is_silent(ledger.database)


async def test_what_did_not_succeed_is_submitted_again(ledger: Ledger, world: World) -> None:
    job_id = await some_failed(world)
    made = await rerun(ledger, job_id, actor="ann", only_unsuccessful=True)
    assert (await inputs_of(world, made.job_id), made.num_tasks) == ([1, 3], 2)


async def test_replicas_run_again_all_together(ledger: Ledger, world: World) -> None:
    job_id = await world.submit(replicas=3)
    made = await rerun(ledger, job_id, actor="ann")
    assert (made.num_tasks, await inputs_of(world, made.job_id)) == (3, [None] * 3)
    assert (await world.job(made.job_id or 0))["fan_out"] is False


async def test_a_dry_run_counts_and_does_nothing(ledger: Ledger, world: World) -> None:
    job_id = await some_failed(world)
    before = await world.dump()
    for only, count in ((False, 4), (True, 2)):
        told = await rerun(ledger, job_id, actor="ann", only_unsuccessful=only, dry_run=True)
        assert told == Rerun(job_id, None, count)
    assert await world.dump() == before


async def test_what_cannot_run_again_is_refused_and_changes_nothing(
    ledger: Ledger, world: World
) -> None:
    replicas = await world.submit(replicas=2)
    live = await world.submit([1])
    undone = await world.submit(
        max_attempts=1, compensation={"function": "app:undo"}, queue="c", on_exhausted="fail"
    )
    [claim] = await world.claim(queue="c")
    await world.start(claim)
    await world.fail(claim)
    await world.run_chores()
    [(compensation,)] = await world.clock.fetch(
        "select job_id from holdfast.jobs where compensates_job_id = $1", undone
    )
    done = await world.submit([1], queue="d")
    [claim] = await world.claim(queue="d")
    await world.succeed(claim)
    before = await world.dump()
    for job_id, only, error, words in (
        (99999, False, NotFound, "there is no job 99999"),
        (compensation, False, Invalid, "job_id: .* replay its dead letter"),
        (replicas, True, Invalid, "only_unsuccessful: goes with inputs only"),
        (live, True, IllegalMove, "it is PENDING"),
        (done, True, IllegalMove, "without a task that did not succeed"),
    ):
        with pytest.raises(error, match=words):
            await rerun(ledger, job_id, actor="ann", only_unsuccessful=only)
        with pytest.raises(error, match=words):
            await rerun(ledger, job_id, actor="ann", only_unsuccessful=only, dry_run=True)
    with pytest.raises(Invalid, match="actor"):
        await rerun(ledger, live, actor="a\0")
    assert await world.dump() == before


async def test_tasks_that_are_still_being_stopped_may_yet_succeed(
    ledger: Ledger, world: World
) -> None:
    fields: dict[str, Any] = {"max_attempts": 1, "on_exhausted": "fail", "max_task_failures": 0}
    job_id = await world.submit([1, 2], **fields)
    first, _ = await world.claim(2)
    await world.start(first)
    await world.fail(first)
    assert await world.job_state(job_id) == TaskState.FAILED
    with pytest.raises(IllegalMove, match="it is still stopping"):
        await rerun(ledger, job_id, actor="ann", only_unsuccessful=True)
    await world.run_chores()
    made = await rerun(ledger, job_id, actor="ann", only_unsuccessful=True)
    assert made.num_tasks == 2


async def test_under_one_key_a_job_runs_again_once(ledger: Ledger, world: World) -> None:
    job_id = await some_failed(world)
    answers = await asyncio.gather(
        *(rerun(ledger, job_id, actor="ann", keyed=a_key("k")) for _ in range(4))
    )
    assert len(set(answers)) == 1
    assert (await world.story(job_id, -1)).count("replayed") == 1
    assert await world.count("jobs") == 2
    with pytest.raises(KeyReused):
        await rerun(ledger, job_id, actor="ann", keyed=a_key("k", request=2))


async def test_a_large_job_runs_again_in_chunks_and_once_per_key(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_chunks(monkeypatch, 10)
    count = 25
    job_id = await world.submit(list(range(count)))
    answers = await asyncio.gather(
        *(rerun(ledger, job_id, actor="ann", keyed=a_key("k")) for _ in range(2))
    )
    made = answers[0]
    assert answers == [Rerun(job_id, made.job_id, count)] * 2
    assert await inputs_of(world, made.job_id) == list(range(count))
    shown = "select count(*) from holdfast.jobs where submitted_at is not null"
    assert [row[0] for row in await world.clock.fetch(shown)] == [2]
    assert (await world.story(job_id, -1)).count("replayed") == 1
    again = await rerun(ledger, job_id, actor="ann", keyed=a_key("k"))
    assert again == made


async def test_more_input_than_a_submission_may_have_is_refused(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await world.submit(["x" * 100, "y"])
    monkeypatch.setattr(resubmission, "INPUTS_BYTES_MAX", 100)
    with pytest.raises(TooLarge, match="inputs: 105 bytes is over the limit of 100 bytes"):
        await rerun(ledger, job_id, actor="ann")


async def test_a_job_whose_output_is_sealed_runs_again_where_it_may(
    ledger: Ledger, world: World
) -> None:
    library = Library(world)
    await library.create()
    job_id = await library.submit(version=1)
    [claim] = await world.claim()
    await library.commit(claim)
    await library.cut_over(1)
    with pytest.raises(Invalid, match="rebind_outputs: version 1 of dataset events is"):
        await rerun(ledger, job_id, actor="ann")
    await library.open()
    made = await rerun(ledger, job_id, actor="ann", rebind=True)
    task = await world.task(TaskId(made.job_id or 0, 0))
    assert task.state == TaskState.PENDING
