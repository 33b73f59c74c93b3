"""What is stored of jobs that refer to others, and how repeats of them are answered."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import IllegalMove, Invalid, KeyReused
from holdfast.ledger.ledger import Ledger
from holdfast.model.ids import TaskId
from holdfast.model.spec import Submission
from holdfast.model.states import JobState
from holdfast.operations.ending.follow_up import follow_up_all
from holdfast.operations.partitions import prune_partition
from holdfast.operations.submitting.arrivals import Submitted, admit, store_arrivals
from holdfast.operations.submitting.submit import submit_batch, submit_one
from holdfast.rules.submission import complete_submission, parse_spec
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


async def test_a_refused_arrival_leaves_those_beside_it_alone(ledger: Ledger, world: World) -> None:
    first = await world.submit()
    given = [a_job(depends_on=[job]) for job in ("999", str(first))]
    complete = [complete_submission(submission, ledger.limits) for submission in given]
    async with ledger.database.transaction() as tx:
        refused, taken = await store_arrivals(tx, await admit(ledger, complete))
    assert isinstance(refused, Invalid)
    assert isinstance(taken, Submitted)
    assert await dependencies(world) == [(taken.job_id, first, "succeeded")]
    await assert_audit_is_silent(ledger.database)


async def test_an_id_that_is_guessed_is_nobody_to_wait_for(ledger: Ledger, world: World) -> None:
    [[last]] = await world.clock.fetch("select last_value from holdfast.job_ids")
    for guess in range(last, last + 5):
        with pytest.raises(Invalid, match="there is no job"):
            await submit_one(ledger, a_job(depends_on=[str(guess + 1)]))
    assert await world.count("jobs") == 0


async def test_a_guessed_id_is_not_that_of_a_job_of_the_same_graph(
    ledger: Ledger, world: World
) -> None:
    for step in range(5):
        [[last]] = await world.clock.fetch("select last_value from holdfast.job_ids")
        guess = str(last + step)
        graph = [a_job("a"), a_job("b", depends_on=["a"]), a_job("c", depends_on=[guess])]
        with pytest.raises(Invalid, match=f"there is no job {guess}"):
            await submit_batch(ledger, graph)
    assert await world.count("jobs") == 0


# Repeats


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


async def test_a_graph_goes_on_from_the_jobs_that_were_seen_before(
    ledger: Ledger, world: World
) -> None:
    def graph(*keys: str) -> list[Submission]:
        names = {"load": ["clean"], "clean": ["extract"], "extract": []}
        return [
            a_job(name, depends_on=waits, idempotency_key=name if name in keys else None)
            for name, waits in names.items()
        ]

    every = ("load", "clean", "extract")
    load, clean, extract = [a.job_id for a in await submit_batch(ledger, graph(*every))]
    again = await submit_batch(ledger, graph(*every))
    assert [(a.job_id, a.is_new) for a in again] == [
        (load, False),
        (clean, False),
        (extract, False),
    ]
    assert await world.count("jobs") == 3

    await world.succeed(await world.claim_by_id(TaskId(extract, 0)))
    await follow_up_all(ledger)
    other, same, last = await submit_batch(ledger, graph("clean", "extract"))
    assert [(a.job_id, a.is_new) for a in (same, last)] == [(clean, False), (extract, False)]
    assert other.is_new
    assert await dependencies(world) == [
        (clean, extract, "succeeded"),
        (load, clean, "succeeded"),
        (other.job_id, clean, "succeeded"),
    ]
    assert (await world.job(other.job_id))["graph_id"] == other.job_id
    assert (await world.job(load))["graph_id"] == extract
    await assert_audit_is_silent(ledger.database)


async def test_two_jobs_of_a_graph_under_one_key_are_one(ledger: Ledger, world: World) -> None:
    graph = [
        a_job("a", idempotency_key="k"),
        a_job("b", idempotency_key="k"),
        a_job("c", depends_on=["a", "b"]),
    ]
    one, other, last = await submit_batch(ledger, graph)
    assert (one.is_new, other) == (True, Submitted(one.job_id, is_new=False))
    assert await dependencies(world) == [(last.job_id, one.job_id, "succeeded")]
    with pytest.raises(KeyReused):
        await submit_batch(
            ledger, [a_job("a", idempotency_key="n"), a_job(idempotency_key="n", priority=1)]
        )
    assert await world.count("jobs") == 2


async def test_a_graph_of_which_one_job_is_refused_is_not_stored(
    ledger: Ledger, world: World
) -> None:
    with pytest.raises(Invalid, match="there is no job 999"):
        await submit_batch(ledger, [a_job("a"), a_job(depends_on=["a", "999"])])
    assert await world.count("jobs") == 0
    assert await dependencies(world) == []


async def test_a_graph_may_wait_for_what_cannot_happen_any_more(
    ledger: Ledger, world: World
) -> None:
    first = await world.submit()
    await world.cancel_job(first)
    a, b, c = await submit_batch(
        ledger,
        [
            a_job("a", depends_on=[str(first)]),
            a_job("b", depends_on=["a"]),
            a_job("c", depends_on=[{"job": "b", "condition": "failed"}]),
        ],
    )
    await follow_up_all(ledger)
    assert [await world.job_state(j.job_id) for j in (a, b)] == [JobState.KILLED] * 2
    assert [claim.task_id.job_id for claim in await world.claim(5)] == [c.job_id]
    await assert_audit_is_silent(ledger.database)
