"""What is stored by one call of the database, and what has to go the long way."""

from typing import Any

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.submitting.policies import TypePolicy
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.states import TaskState
from holdfast.operations.policies import set_policy
from holdfast.operations.submitting.accept import accept
from holdfast.operations.submitting.at_once import can_be_at_once, store_at_once
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit
from holdfast.operations.upkeep.partitions import keep_partitions_ahead
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from tests.audits import assert_audit_is_silent
from tests.world import World


def a_job(inputs: tuple[str, ...] | None = None, **fields: Any) -> Submission:
    """Describe a job for queue `q`."""
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    return Submission(spec, inputs)


async def store(ledger: Ledger, *submissions: Submission) -> dict[int, Submitted]:
    """Store jobs at once, as far as they can be."""
    accepted, policies = await accept(ledger, submissions)
    jobs = {k: each for k, each in enumerate(accepted) if isinstance(each, Submission)}
    return await store_at_once(ledger, jobs, policies)


@pytest.fixture
async def ready_ledger(ledger: Ledger, world: World) -> Ledger:
    """A ledger that has looked at its partitions."""
    await keep_partitions_ahead(ledger)
    return ledger


async def test_jobs_are_stored_whole_told_of_and_claimed(
    ready_ledger: Ledger, world: World
) -> None:
    heard: list[News] = []
    ready_ledger.on_commit = heard.append
    one, many, placed = a_job(priority=4), a_job(("1", "2")), a_job(queue=None)
    stored = await store(ready_ledger, one, many, placed)
    first = stored[0].job_id
    assert [(k, each.job_id, each.is_new) for k, each in stored.items()] == [
        (k, first + k, True) for k in range(3)
    ]
    row = stored[1].row
    assert row is not None
    assert (row.job_id, row.num_tasks, row.fan_out) == (first + 1, 2, True)
    [news] = heard
    told = [(job.job_id, job.submitted, job.ready) for job in news.stored_jobs]
    assert told == [(first, 1, 1), (first + 1, 2, 2), (first + 2, 1, 1)]
    assert ready_ledger.specs.find(first) is not None
    job = await world.job(first + 1)
    assert (job["state"], job["pending"], job["submitted_at"]) == (
        TaskState.PENDING, 2, stored[1].at,
    )  # fmt: skip
    claims = await world.claim(9)
    assert [(claim.task_id.job_id, claim.input) for claim in claims] == [
        (first, None), (first + 1, "1"), (first + 1, "2"),
    ]  # fmt: skip
    await assert_audit_is_silent(ready_ledger.database)


async def test_a_known_key_is_left_to_the_long_way_and_the_others_are_stored(
    ready_ledger: Ledger, world: World
) -> None:
    keyed, other = a_job(idempotency_key="k"), a_job()
    stored = await store(ready_ledger, keyed, other, keyed)
    assert stored.keys() == {0, 1}
    assert await store(ready_ledger, keyed) == {}
    again, new = await submit(ready_ledger, [keyed, other])
    assert again == Submitted(stored[0].job_id, is_new=False)
    assert isinstance(new, Submitted)
    assert new.is_new
    assert await world.count("jobs") == 3


async def test_nothing_is_stored_under_policies_that_have_changed(
    ready_ledger: Ledger, world: World
) -> None:
    accepted, policies = await accept(ready_ledger, [a_job()])
    await set_policy(ready_ledger, "work", TypePolicy(), actor="ann")
    assert isinstance(accepted[0], Submission)
    assert await store_at_once(ready_ledger, {0: accepted[0]}, policies) == {}
    assert await world.count("jobs") == 0


async def test_nothing_is_stored_before_there_is_a_partition(ledger: Ledger, world: World) -> None:
    assert await store(ledger, a_job()) == {}
    await keep_partitions_ahead(ledger)
    end = ledger.partitions_end
    await world.clock.fetch("select setval('holdfast.job_ids', $1)", end - 1)
    assert await store(ledger, a_job()) == {}
    [answer] = await submit(ledger, [a_job()])
    assert isinstance(answer, Submitted)
    assert answer.job_id > end, "an id was given out for nothing"
    assert (await store(ledger, a_job()))[0].job_id == answer.job_id + 1


@pytest.mark.parametrize(
    "fields",
    [
        {"depends_on": ["1"]},
        {"outputs": [{"dataset": "d"}]},
        {"not_before": 1.0},
        {"start_rate": 1.0},
        {"start_delay": 1.0},
        {"replicas": 10_001},
    ],
)
async def test_what_refers_to_others_waits_or_is_large_goes_the_long_way(
    ledger: Ledger, fields: dict[str, Any]
) -> None:
    assert can_be_at_once(complete_submission(a_job(), ledger.limits))
    assert not can_be_at_once(complete_submission(a_job(**fields), ledger.limits))
