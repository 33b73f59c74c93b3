"""What is stored of new jobs, and how repeats of them are answered."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.submitting.spec import Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.admit import admit
from holdfast.operations.submitting.store import Submitted, store_jobs
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep.partitions import prune_partition
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from tests.audits import assert_audit_is_silent
from tests.world import World


def a_job(name: str | None = None, parent: int | None = None, **fields: Any) -> Submission:
    """Describe one job, of a graph or not."""
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    return Submission(spec, local_name=name, parent_job_id=parent)


async def dependencies(world: World) -> list[tuple[int, int, str]]:
    """List who waits for whom."""
    query = "select job_id, depends_on, condition from holdfast.dependencies order by 1, 2"
    return [tuple(row) for row in await world.clock.fetch(query)]


async def test_what_is_refused_leaves_those_beside_it_alone(ledger: Ledger, world: World) -> None:
    first = await world.submit()
    given = [a_job(depends_on=[job]) for job in ("999", str(first))]
    complete = [complete_submission(submission, ledger.limits) for submission in given]
    async with ledger.database.transaction() as tx:
        tx.news = News()
        refused, taken = await store_jobs(tx, await admit(ledger, complete))
    assert isinstance(refused, Invalid)
    assert isinstance(taken, Submitted)
    assert await dependencies(world) == [(taken.job_id, first, "succeeded")]
    await assert_audit_is_silent(ledger.database)


async def test_a_repeat_is_answered_with_its_job_although_the_jobs_it_names_are_gone(
    ledger: Ledger, world: World
) -> None:
    first = await world.submit()
    await world.clock.fetch("select setval('holdfast.job_ids', 20000)")
    second = a_job(depends_on=[str(first)], idempotency_key="k")
    taken = await submit_one(ledger, second)
    for job_id in (first, taken.job_id):
        await world.succeed(await world.claim_by_id(TaskId(job_id, 0)))
        await follow_up_all(ledger)
    await world.clock.advance(3600)
    assert await prune_partition(ledger, timedelta(minutes=1)) == 1
    assert await submit_one(ledger, second) == Submitted(taken.job_id, is_new=False)
    with pytest.raises(KeyReused):
        await submit_one(ledger, a_job(depends_on=["998"], idempotency_key="k"))
    with pytest.raises(Invalid, match="there is no job"):
        await submit_one(ledger, a_job(depends_on=[str(first)], idempotency_key="other"))


async def test_a_repeated_child_is_answered_with_its_job_after_its_parents_end(
    ledger: Ledger, world: World
) -> None:
    parent = await world.submit()
    child = a_job(parent=parent, idempotency_key="k")
    taken = await submit_one(ledger, child)
    await world.cancel_job(parent)
    assert await submit_one(ledger, child) == Submitted(taken.job_id, is_new=False)
    with pytest.raises(IllegalMove):
        await submit_one(ledger, a_job(parent=parent, idempotency_key="other"))


async def test_each_field_of_a_job_is_stored_as_itself(ledger: Ledger, world: World) -> None:
    parent, earlier = await world.submit(), await world.submit()
    stored: dict[str, Any] = {
        "name": "n", "type": "t", "owner": "o", "queue": "u", "priority": 3,
        "correlation_id": "c", "idempotency_key": "k", "max_task_failures": 1,
    }  # fmt: skip
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "labels": {"l": "v"}} | stored)
    given = Submission(
        spec, ("1", "2"), parent_job_id=parent, replay_of=earlier, trace_parent="00f067aa0ba902b7"
    )
    job = await world.job((await submit_one(ledger, given)).job_id)
    stored |= {
        "parent_job_id": parent, "replay_of": earlier, "trace_parent": "00f067aa0ba902b7",
        "fan_out": True, "num_tasks": 2, "unmet": 0, "graph_id": None, "compensates_job_id": None,
    }  # fmt: skip
    assert {name: job[name] for name in stored} == stored
    assert '"l": "v"' in job["labels"]
    assert '"app:work"' in job["spec"]
