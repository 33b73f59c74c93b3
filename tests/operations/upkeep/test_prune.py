"""Retention: what is old and over goes, and nothing else."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.errors import Unavailable
from holdfast.ledger.ledger import Ledger
from holdfast.model.submitting.spec import Submission
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.notes import Note
from holdfast.operations.register import Registration, register
from holdfast.operations.submitting import chunk
from holdfast.operations.submitting.admit import Admitted, admit
from holdfast.operations.submitting.submit import submit_one
from holdfast.operations.upkeep import prune as pruning
from holdfast.operations.upkeep.prune import Retention, prune
from holdfast.rules.submitting.submission import complete_submission, parse_spec
from holdfast.store.database import Database
from holdfast.store.tables.upkeep.samples import STEPS, Tally, TypeTally, add_sample
from holdfast.store.tables.workers.workers import see_workers
from tests.audits import assert_audit_is_silent
from tests.chunks import shrink_chunks
from tests.world import World

DAY = 86_400.0
SPEC = {"entrypoint": {"function": "app:work"}, "queue": "q", "replicas": 25_000}


async def test_nothing_to_prune_prunes_nothing(ledger: Ledger, world: World) -> None:
    await world.submit()
    await world.claim()
    before = await world.dump()
    assert await prune(ledger, Retention()) == 0
    assert await world.dump() == before


async def test_a_submission_that_never_arrived_whole_goes_after_an_hour(
    ledger: Ledger, world: World
) -> None:
    visible = await world.submit()
    arriving = asyncio.create_task(submit_one(ledger, Submission(parse_spec(SPEC))))
    while await world.count("tasks") < 2:
        pass
    arriving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await arriving
    await world.clock.advance(3_000)
    assert await prune(ledger, Retention()) == 0
    await world.clock.advance(700)
    assert await prune(ledger, Retention()) == 1
    rows = await world.clock.fetch("select job_id from holdfast.jobs")
    assert [row[0] for row in rows] == [visible]
    assert await world.count("tasks") == 1


async def abandon(ledger: Ledger, world: World) -> None:
    """Let a large submission die when some of its chunks are in."""
    arriving = asyncio.create_task(submit_one(ledger, Submission(parse_spec(SPEC))))
    while await world.count("tasks") < 20_000:
        pass
    arriving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await arriving


async def test_an_abandoned_submission_of_any_size_goes_in_bounded_steps(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await abandon(ledger, world)
    await world.clock.fetch(
        "create function public.refuse_many() returns trigger language plpgsql as 'begin "
        "if (select count(*) from gone) > 10000 then raise ''too many at once''; end if; "
        "return null; end'"
    )
    await world.clock.fetch(
        "create trigger few after delete on holdfast.tasks referencing old table as gone "
        "for each statement execute function public.refuse_many()"
    )
    monkeypatch.setattr(pruning, "HIDDEN_STEPS_MAX", 1)
    await world.clock.advance(3_700)
    assert await prune(ledger, Retention()) == 1
    assert await world.count("tasks") == 10_000
    await assert_audit_is_silent(ledger.database)
    assert await prune(ledger, Retention()) == 1
    while await prune(ledger, Retention()):
        pass
    assert [await world.count("jobs"), await world.count("tasks")] == [0, 0]


async def test_a_submission_that_retention_has_begun_to_take_away_is_never_shown(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_chunks(monkeypatch, 10)
    monkeypatch.setattr(chunk, "DELETED_MAX", 5)
    monkeypatch.setattr(pruning, "HIDDEN_STEPS_MAX", 1)
    spec = parse_spec(SPEC | {"replicas": 25})
    [job] = await admit(ledger, [complete_submission(Submission(spec), ledger.limits)])
    stored = await chunk.store_hidden(ledger, job)
    assert isinstance(stored, Admitted)
    await world.clock.advance(3_700)
    await prune(ledger, Retention())
    assert await world.count("tasks") == 20
    async with ledger.database.transaction() as tx:
        with pytest.raises(Unavailable, match="started over"):
            await chunk.show_hidden(tx, stored)


async def test_a_hidden_job_that_somebody_holds_keeps_nothing_else_from_going(
    ledger: Ledger, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "HIDDEN_STEPS_MAX", 1)
    spec = parse_spec(SPEC | {"replicas": 25})
    held, other = [
        (await admit(ledger, [complete_submission(Submission(spec), ledger.limits)]))[0]
        for _ in range(2)
    ]
    for job in (held, other):
        await chunk.store_hidden(ledger, job)
    await world.submit()
    [mine] = await world.claim()
    await world.complete(mine, "succeeded", events=(Note("a"),))
    await world.clock.advance(8 * DAY)
    async with Database(database_url) as holder, holder.transaction() as tx:
        await tx.connection.execute(
            f"select from holdfast.jobs where job_id = {held.job_id} for update"
        )
        assert await prune(ledger, Retention()) == 2  # a job and a note
        assert await world.count("notes") == 0
        assert await prune(ledger, Retention()) == 0
    assert await prune(ledger, Retention()) == 1


async def test_notes_go_when_their_time_is_over(ledger: Ledger, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.complete(mine, "succeeded", events=(Note("a"), Note("b")))
    await world.clock.advance(6 * DAY)
    assert await prune(ledger, Retention()) == 0
    await world.clock.advance(2 * DAY)
    assert await prune(ledger, Retention()) == 2
    assert await world.count("notes") == 0


async def test_the_keys_of_old_claims_go_and_the_claims_stay(ledger: Ledger, world: World) -> None:
    await world.submit()
    request = ClaimRequest("w1", ("q",), idempotency_key="k")
    [answer] = await claim(ledger, [request])
    assert isinstance(answer, list)
    await world.clock.advance(DAY / 48)
    assert await prune(ledger, Retention()) == 0
    await world.clock.advance(DAY / 24)
    assert await prune(ledger, Retention()) == 1
    assert await world.count("idempotency_keys") == 0
    assert await world.count("leases") == 1


async def test_what_no_chart_shows_any_more_goes(ledger: Ledger, world: World) -> None:
    async with ledger.database.transaction() as tx:
        await add_sample(tx, "server", Tally(types={"mail": TypeTally(1, 0)}), depth=0, running=0)
    assert await prune(ledger, Retention()) == 0
    await world.clock.advance(9 * DAY)
    assert await prune(ledger, Retention()) == len(STEPS) + 1


async def test_a_step_is_bounded_and_the_next_goes_on(ledger: Ledger, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    notes = tuple(Note(f"n{i}") for i in range(1_500))
    await world.complete(mine, "succeeded", events=notes)
    await world.clock.advance(8 * DAY)
    assert [await prune(ledger, Retention()) for _ in range(3)] == [1_000, 500, 0]


async def test_an_old_range_goes_by_its_own_retention(ledger: Ledger, world: World) -> None:
    await world.submit()
    await world.succeed((await world.claim())[0])
    await world.clock.fetch("select setval('holdfast.job_ids', 10001)")
    await world.clock.advance(2 * DAY)
    assert await prune(ledger, Retention()) == 0
    assert await prune(ledger, Retention(jobs=timedelta(days=1))) == 1
    assert await world.count("jobs") == 0


async def test_a_worker_that_is_long_gone_is_forgotten_unless_it_holds_something(
    ledger: Ledger, world: World
) -> None:
    for worker_id in ("gone", "holding", "seen"):
        await register(ledger, Registration(worker_id, worker_id, "host"))
    await world.submit()
    await claim(ledger, [ClaimRequest("holding", ("q",))])
    await world.clock.advance(8 * DAY)
    async with ledger.database.transaction() as tx:
        await see_workers(tx, ["seen"])
    assert await prune(ledger, Retention()) == 1
    left = [str(row[0]).partition(",")[0] for row in (await world.dump())["workers"]]
    assert sorted(left) == ["(holding", "(seen"]
