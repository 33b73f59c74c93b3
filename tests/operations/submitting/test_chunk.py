"""Large jobs are stored in chunks, and nobody sees them before the last."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import IllegalMove, KeyReused
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import TaskState
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit, submit_one
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from tests.world import World

LARGE = 25_000


def a_submission(inputs: list[Any] | None = None, **fields: Any) -> Submission:
    """Describe a job for queue `q`; `parent_job_id` is a link, the rest belongs to the spec."""
    parent = fields.pop("parent_job_id", None)
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    texts = None if inputs is None else parse_inputs(inputs)
    return Submission(spec, texts, parent_job_id=parent)


async def test_a_large_job_is_hidden_until_its_last_chunk(ledger: Ledger, world: World) -> None:
    arriving = asyncio.create_task(submit_one(ledger, a_submission(replicas=LARGE)))
    await _wait_for_a_chunk(world)
    [row] = await world.clock.fetch("select job_id, submitted_at from holdfast.jobs")
    if row["submitted_at"] is None:
        assert await world.story(row["job_id"], -1) == []
        assert await world.claim(10) == []
    job_id = (await arriving).job_id
    assert await world.story(job_id, -1) == ["submitted"]
    await follow_up_all(ledger)
    assert await world.count("ready") == LARGE
    [first] = await world.claim(1)
    last = await world.claim_by_id(TaskId(job_id, LARGE - 1))
    assert (first.task_id.task_index, last.task_id.task_index) == (0, LARGE - 1)


async def test_a_large_job_with_a_start_time_waits_whole(ledger: Ledger, world: World) -> None:
    [row] = await world.clock.fetch("select extract(epoch from holdfast.now())::float8 + 60")
    await submit_one(ledger, a_submission(replicas=10_001, not_before=row[0]))
    await follow_up_all(ledger)
    assert (await world.count("ready"), await world.count("waiting")) == (0, 10_001)


async def test_a_repeat_starts_an_abandoned_large_job_over(ledger: Ledger, world: World) -> None:
    submission = a_submission(replicas=LARGE, idempotency_key="k")
    await _abandon(ledger, world, submission)
    [hidden] = await world.clock.fetch("select job_id from holdfast.jobs")
    again = await submit_one(ledger, submission)
    assert again.is_new
    assert again.job_id != hidden[0]
    while await prune(ledger, Retention()):
        pass
    assert [await world.count("jobs"), await world.count("tasks")] == [1, LARGE]
    repeated = await submit_one(ledger, submission)
    assert repeated == Submitted(again.job_id, is_new=False)


async def test_an_abandoned_large_job_keeps_its_key_from_another_spec(
    ledger: Ledger, world: World
) -> None:
    await _abandon(ledger, world, a_submission(replicas=LARGE, idempotency_key="k"))
    with pytest.raises(KeyReused):
        await submit_one(ledger, a_submission(replicas=LARGE + 1, idempotency_key="k"))


async def test_an_abandoned_large_job_keeps_its_key_from_other_inputs(
    ledger: Ledger, world: World
) -> None:
    inputs = list(range(LARGE))
    await _abandon(ledger, world, a_submission(inputs, idempotency_key="k"))
    with pytest.raises(KeyReused):
        await submit_one(ledger, a_submission([-1, *inputs[1:]], idempotency_key="k"))
    assert (await submit_one(ledger, a_submission(inputs, idempotency_key="k"))).is_new


async def test_a_large_child_does_not_outlive_a_parent_that_ended_while_it_arrived(
    ledger: Ledger, world: World
) -> None:
    parent = await world.submit()
    child = a_submission(replicas=LARGE, parent_job_id=parent)
    arriving = asyncio.create_task(submit(ledger, [child]))
    await _wait_for_a_chunk(world)
    await world.cancel_job(parent)
    [answer] = await arriving
    await follow_up_all(ledger)
    if isinstance(answer, Submitted):
        assert await world.job_state(answer.job_id) == TaskState.KILLED
    else:
        assert isinstance(answer, IllegalMove)


async def _wait_for_a_chunk(world: World) -> None:
    """Let the submission that arrives in the background get some of its tasks in."""
    while not await world.clock.fetch(
        "select from holdfast.tasks join holdfast.jobs using (job_id) "
        "where num_tasks > 10000 limit 1"
    ):
        pass


async def _abandon(ledger: Ledger, world: World, submission: Submission) -> None:
    """Let a submission die on its way: some of its chunks are in, the last is not."""
    arriving = asyncio.create_task(submit_one(ledger, submission))
    await _wait_for_a_chunk(world)
    arriving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await arriving
    [row] = await world.clock.fetch("select submitted_at from holdfast.jobs")
    assert row["submitted_at"] is None
