"""A graph is stored whole or not at all, and its local names mean the right jobs."""

from typing import Any

import pytest

from holdfast.errors import Invalid, KeyReused, NotFound, TooLarge
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.ids import TaskId
from holdfast.model.work.states import JobState
from holdfast.operations.follow_up import follow_up_all
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.submitting.store import Submitted
from holdfast.operations.submitting.submit import submit_one
from holdfast.rules.submitting.submission import parse_inputs, parse_spec
from holdfast.store.database import Database
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


def a_submission(inputs: list[Any] | None = None, **fields: Any) -> Submission:
    """Describe a job for queue `q`; `parent_job_id` is a link, the rest belongs to the spec."""
    parent = fields.pop("parent_job_id", None)
    spec = parse_spec({"entrypoint": {"function": "app:work"}, "queue": "q"} | fields)
    texts = None if inputs is None else parse_inputs(inputs)
    return Submission(spec, texts, parent_job_id=parent)


async def test_a_batch_is_stored_whole(ledger: Ledger, world: World) -> None:
    answers = await submit_batch(ledger, [a_submission(), a_submission(inputs=[1, 2])])
    assert [answer.is_new for answer in answers] == [True, True]
    assert len(await world.claim(5)) == 3


async def test_a_batch_with_one_bad_job_stores_nothing(ledger: Ledger, world: World) -> None:
    await submit_one(ledger, a_submission(idempotency_key="k"))
    before = await world.dump()
    for expected, bad in (
        (Invalid, a_submission(lease=1.0)),
        (KeyReused, a_submission(idempotency_key="k", priority=3)),
        (NotFound, a_submission(parent_job_id=99)),
    ):
        with pytest.raises(expected):
            await submit_batch(ledger, [a_submission(), bad, a_submission()])
        assert await world.dump() == before


async def test_a_batch_larger_than_one_transaction_is_refused(database: Database) -> None:
    ledger = Ledger(database, Limits(batch_tasks_max=10))
    with pytest.raises(TooLarge, match="12 tasks is over the limit of 10"):
        await submit_batch(ledger, [a_submission(replicas=6), a_submission(replicas=6)])


async def names_of(world: World, *answers: Submitted) -> list[tuple[str, str]]:
    """Read the correlation ids and traces of jobs."""
    query = "select correlation_id, trace_id from holdfast.jobs where job_id = $1"
    return [tuple((await world.clock.fetch(query, answer.job_id))[0]) for answer in answers]


async def test_the_jobs_of_a_graph_share_a_correlation_id(ledger: Ledger, world: World) -> None:
    graph = [a_job("a"), a_job("b", depends_on=["a"]), a_job(correlation_id="mine")]
    [(first, _), (second, _), (own, _)] = await names_of(world, *await submit_batch(ledger, graph))
    assert first == second == own == "mine"
    [(first, _), (second, _)] = await names_of(world, *await submit_batch(ledger, graph[:2]))
    assert first == second != "mine"
    apart = await submit_batch(ledger, [a_job(), a_job()])
    assert len(set(await names_of(world, *apart))) == 2


async def test_a_child_goes_by_the_names_of_its_parent(ledger: Ledger, world: World) -> None:
    parent = await submit_one(ledger, a_job())
    child = await submit_one(ledger, a_job(parent=parent.job_id))
    named = await submit_one(ledger, a_job(parent=parent.job_id, correlation_id="c", trace_id="t"))
    family = await submit_batch(
        ledger, [a_job("a", parent.job_id), a_job("b", parent.job_id, depends_on=["a"])]
    )
    [mine, *others] = await names_of(world, parent, child, *family)
    assert others == [mine] * 3
    assert await names_of(world, named) == [("c", "t")]
