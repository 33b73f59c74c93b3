"""Compensations are submitted once, in their turn, with all they have to know."""

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Limits, Submission
from holdfast.model.work.ids import TaskId
from holdfast.operations.follow_up import follow_up, follow_up_all
from holdfast.operations.submitting import chunk
from holdfast.operations.submitting.graph import submit_batch
from holdfast.operations.undoing import compensate
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.rules.submitting.submission import parse_spec
from holdfast.store.database import Database
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.datasets import Library, an_entry
from tests.journeys.test_saga import Saga, alone
from tests.placed_world import PlacedWorld
from tests.world import World


async def records(world: World) -> list[Any]:
    """Take every compensation that waits, and read what it is told."""
    await world.pass_time(1.0)
    return [msgspec.json.decode(claim.input or "") for claim in await world.claim(100)]


async def test_one_task_for_each_that_had_started(world: World) -> None:
    saga = await alone(world, inputs=["a", "b", "c", "d"], max_task_failures=0, on_exhausted="fail")
    first, second, third = await world.claim(3)
    await world.succeed(first, '{"paid": 1}')
    await world.start(third)
    await world.fail(second, "PermanentError")
    await world.pass_time(1.0)
    await world.complete(third, "killed")
    told = await records(world)
    assert [(r["task_id"], r["state"], r["input"], r["result"], r["error"]) for r in told] == [
        ("1.0", "SUCCEEDED", "a", {"paid": 1}, None),
        ("1.1", "FAILED", "b", None, "boom"),
        ("1.2", "KILLED", "c", None, None),
    ]
    job = await world.job(2)
    assert (job["name"], job["type"], job["parent_job_id"]) == ("undo work", "work.undo", None)
    assert job["correlation_id"] == (await world.job(1))["correlation_id"]
    await assert_audit_is_silent(saga.world.ledger.database)


async def test_replicas_are_undone_as_one(world: World) -> None:
    await alone(world, replicas=3, on_exhausted="fail", entrypoint={"function": "a:b", "args": [7]})
    first, second, third = await world.claim(3)
    await world.succeed(first, "1")
    await world.fail(second, "PermanentError")
    await world.pass_time(1.0)
    await world.complete(third, "killed")
    [record] = await records(world)
    assert (record["task_id"], record["state"], record["error"]) == (None, "FAILED", "boom")
    assert (record["args"], record["result"]) == ([], [1, None, None])  # workers fetch the call


async def test_results_and_outputs_are_told(world: World) -> None:
    library = Library(world)
    await library.create()
    fields: dict[str, Any] = {"queue": "q", "compensation": {"shell": "undo"}}
    specs: dict[str, dict[str, Any]] = {
        "made": {"entrypoint": {"function": "a:a"}, "outputs": [{"dataset": "events"}]},
        "used": {"entrypoint": {"function": "a:b"}, "depends_on": ["made"]},
    }
    answers = await submit_batch(
        world.ledger,
        [Submission(parse_spec(fields | spec), local_name=name) for name, spec in specs.items()],
    )
    saga = Saga(world, {name: a.job_id for name, a in zip(specs, answers, strict=True)})
    made = await saga.run("made")
    await world.complete(made, "succeeded", result='{"n": 5}', outputs=(an_entry("day"),))
    await saga.fail("used")
    assert await saga.undo() == "used"
    [undo_made] = await records(world)
    assert undo_made["result"] == {"n": 5}
    [output] = undo_made["outputs"]
    assert (output["dataset"], output["version"], output["uri"]) == ("events", 1, "s3://bucket/day")


async def test_there_is_one_bound_on_all_that_a_compensation_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compensate, "RECORDS_BYTES_MAX", 2000)
    monkeypatch.setattr(compensate, "OUTPUTS_BYTES_MAX", 600)
    library = Library(world)
    await library.create()
    packed = "c" * 10_000
    saga = await alone(
        world,
        inputs=["i" * 500] * 6,
        max_task_failures=0,
        entrypoint={"pickle": packed},
        outputs=[{"dataset": "events"}],
    )
    *done, failed = await world.claim(6)
    for claim in done:
        index = claim.task_id.task_index
        entries = (an_entry(f"k{index}"), an_entry(f"l{index}"))
        await world.complete(claim, "succeeded", result=f'"{"r" * 600}"', outputs=entries)
    await world.fail(failed, "PermanentError")
    await world.pass_time(1.0)
    rows = await world.clock.fetch("select input::text from holdfast.tasks where job_id = 2")
    told = [msgspec.json.decode(row[0]) for row in rows]
    assert all(record["input"] == "i" * 500 and record["is_pickled"] for record in told)
    kept = sum(len(record["result"] or "") + len(str(record["outputs"])) for record in told)
    assert 1000 < kept <= 2000
    assert sum(len(row[0]) for row in rows) < len(packed)
    # What came before the bound is told in full, and what comes after it says so.
    assert [bool(r["result"]) for r in told] == [True] * 2 + [False] * 4
    assert [r["truncated"] for r in told] == [False] + [True] * 5
    assert [len(r["outputs"]) for r in told] == [2, 1, 0, 0, 0, 0]
    await assert_audit_is_silent(saga.world.ledger.database)


async def test_one_that_is_refused_holds_up_no_other_and_is_tried_again(
    world: World, database: Database
) -> None:
    saga = await alone(world, lease=60.0)
    narrow = Ledger(database, Limits(lease_seconds_max=40.0))
    await saga.fail("job")
    other = await world.submit(compensation={"shell": "undo"}, queue="other", on_exhausted="fail")
    [claim] = await world.claim(queue="other")
    await world.fail(claim)
    await world.clock.advance(1)
    await follow_up_all(narrow)
    [row] = await world.clock.fetch("select compensates_job_id from holdfast.jobs where job_id > 2")
    assert row[0] == other
    await world.pass_time(30)
    assert await world.claim() == []
    await world.pass_time(31)
    [claim] = await world.claim()
    assert (await world.job(claim.task_id.job_id))["compensates_job_id"] == saga.job_ids["job"]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job of more than two tasks count as large."""
    shrink_chunks(monkeypatch, 2)
    monkeypatch.setattr(compensate, "PAGE_TASKS_MAX", 2)


@pytest.mark.usefixtures("small_chunks")
async def test_a_large_one_is_started_over_after_a_crash(world: World, database_url: str) -> None:
    await alone(world, inputs=[1, 2, 3, 4, 5], on_exhausted="fail")
    for claim in await _claim_all(world, 5):
        await world.fail(claim, "PermanentError")
    await world.clock.advance(1)
    await follow_up(world.ledger)
    async with Database(database_url) as other:
        server = Ledger(other)
        # It dies between storing the compensation and showing it.
        following = await compensate._prepare(server, 1, 1)
    assert following.is_hidden
    await world.clock.advance(20)
    await follow_up_all(world.ledger)
    assert not await world.clock.fetch("select from holdfast.undos where compensation_job_id > 0")
    await world.pass_time(60)
    [undo] = await world.clock.fetch("select * from holdfast.undos")
    assert undo["compensation_job_id"] > following.job.job_id
    assert len(await _claim_all(world, 5)) == 5
    while await prune(world.ledger, Retention()):
        pass
    assert await world.count("jobs") == 2
    await assert_audit_is_silent(world.ledger.database)


async def _claim_all(world: World, count: int) -> list[Any]:
    """Claim the tasks of a large job, as they are lined up."""
    await follow_up_all(world.ledger)
    return await world.claim(count)


async def test_two_that_prepare_the_same_store_it_once(world: World, database_url: str) -> None:
    saga = await alone(world)
    await saga.fail("job")
    await world.clock.advance(1)
    await follow_up(world.ledger)
    # Each finds a row of its own that tells it to look.
    await world.clock.fetch(
        "insert into holdfast.outbox (kind, job_id, created_at) values ('undo_graph', 1, now())"
    )
    rows = await world.clock.fetch("select id from holdfast.outbox where kind = 'undo_graph'")
    assert len(rows) == 2
    async with Database(database_url) as other:
        both = ((world.ledger, rows[0][0]), (Ledger(other), rows[1][0]))
        turns = (compensate.compensate(each, row_id, 1) for each, row_id in both)
        assert sorted(await asyncio.gather(*turns)) == [0, 1]  # the first has done both
    assert await saga.undo_all() == ["job"]
    await saga.check("job")
    assert (await world.task(TaskId(2, 0))).finished


async def test_a_gang_is_undone_by_one_placed_task(cluster: PlacedWorld) -> None:
    await cluster.add("w1", cpu=2.0)
    await cluster.submit(
        replicas=2, coscheduling={}, compensation={"command": ["undo"]}, labels={"a": "b"}
    )
    assert len(await cluster.place()) == 2
    worker = cluster.workers["w1"]
    await cluster.beat("w1")
    for index in (0, 1):
        worker.start(TaskId(1, index))
    await cluster.beat("w1")
    worker.fail(TaskId(1, 0))
    for _ in range(3):
        await cluster.beat("w1")
        await cluster.pass_time(1.0)
    assert await cluster.place() == {TaskId(2, 0): "w1"}
    await assert_audit_is_silent(cluster.ledger.database)


async def test_what_a_compensation_is_told_is_stored_in_chunks_of_bounded_size(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk, "CHUNK_BYTES_MAX", 2000)
    monkeypatch.setattr(compensate, "PAGE_TASKS_MAX", 2)
    saga = await alone(world, inputs=["i" * 500] * 6, on_exhausted="fail")
    for claim in await world.claim(6):
        await world.fail(claim, "PermanentError")
    await world.clock.fetch(
        "create function public.refuse_much() returns trigger language plpgsql as 'begin "
        "if (select sum(octet_length(input::text)) from stored) > 2000 "
        "then raise ''too much at once''; end if; return null; end'"
    )
    await world.clock.fetch(
        "create trigger little after insert on holdfast.tasks referencing new table as stored "
        "for each statement execute function public.refuse_much()"
    )
    told = await records(world)
    assert [record["task_id"] for record in told] == [f"1.{index}" for index in range(6)]
    assert all(record["input"] == "i" * 500 for record in told)
    await assert_audit_is_silent(saga.world.ledger.database)


async def test_a_compensation_is_no_submission(world: World) -> None:
    submitted: list[int] = []
    world.ledger.on_commit = lambda news: submitted.extend(j.submitted for j in news.stored_jobs)
    await alone(world, inputs=["a", "b"], max_task_failures=0, on_exhausted="fail")
    first, second = await world.claim(2)
    await world.succeed(first, "1")
    await world.fail(second, "PermanentError")
    assert len(await records(world)) == 2, "its compensation was stored"
    assert submitted == [2, 0]
