"""The chores of a server: each one is there, and does what its name says."""

import asyncio

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.operations.upkeep.prune import Retention
from holdfast.services import chore_list
from holdfast.services.chore_list import list_chores
from holdfast.services.chores import Chore
from holdfast.services.reasons import Reasons
from holdfast.services.stops import Stops
from holdfast.services.waking.doorbell import Bell, Doorbells
from tests.world import World


def chores(ledger: Ledger, doorbells: Doorbells) -> dict[str, Chore]:
    """List the chores by name."""
    stops = Stops(ledger, doorbells)
    reasons = Reasons(ledger, ledger.database)
    listed = list_chores(
        ledger, doorbells, stops, reasons=reasons, gated=asyncio.Event(), retention=Retention()
    )
    return {chore.name: chore for chore in listed}


async def test_every_chore_runs_on_an_empty_ledger_and_finds_nothing(ledger: Ledger) -> None:
    found = chores(ledger, Doorbells())
    assert sorted(found) == [
        "add partitions",
        "age tasks in shares",
        "clear lines",
        "clear what limits hold back",
        "drop idle buckets",
        "end jobs over their age",
        "expire",
        "fire schedules",
        "follow the clock",
        "give up scheduling",
        "look behind limits",
        "look for forgotten dependents",
        "note workers",
        "open what deleted limits held back",
        "prune",
        "reap leases",
        "requeue due",
        "ring for ended jobs",
        "ring for ready tasks",
        "sort shares",
        "summarise events",
        "sweep dropped versions",
        "tell what should stop",
    ]
    for chore in found.values():
        assert 0 < chore.every <= 60
        await chore.run()
        assert await chore.run() < chore.full, chore.name


async def test_who_waits_for_a_queue_is_rung_if_something_is_there(
    ledger: Ledger, world: World
) -> None:
    doorbells = Doorbells()
    look = chores(ledger, doorbells)["ring for ready tasks"].run
    with (
        doorbells.listen([Bell("queue", "q")]) as one,
        doorbells.listen([Bell("queue", "q")]) as other,
        doorbells.listen([Bell("queue", "empty")]) as stranger,
    ):
        await look()
        assert not one.was_rung
        await world.submit()
        await look()
        assert (one.was_rung, other.was_rung, stranger.was_rung) == (True, False, False)


async def test_nobody_is_rung_for_a_paused_queue(ledger: Ledger, world: World) -> None:
    doorbells = Doorbells()
    look = chores(ledger, doorbells)["ring for ready tasks"].run
    await world.submit()
    await world.clock.fetch("insert into holdfast.queues values ('q', holdfast.now(), 'ops')")
    with doorbells.listen([Bell("queue", "q")]) as listener:
        await look()
        assert not listener.was_rung


async def test_who_waits_for_a_job_is_rung_when_it_has_ended(ledger: Ledger, world: World) -> None:
    doorbells = Doorbells()
    watch = chores(ledger, doorbells)["ring for ended jobs"].run
    job_id = await world.submit()
    bell = Bell("job", str(job_id))
    with doorbells.listen([bell]) as one, doorbells.listen([bell]) as other:
        await watch()
        assert [listener.was_rung for listener in (one, other)] == [False, False]
        await world.cancel_job(job_id)
        await watch()
        assert [listener.was_rung for listener in (one, other)] == [True, True]


async def test_leases_that_ran_out_are_reaped_and_their_tasks_requeued(
    ledger: Ledger, world: World
) -> None:
    await world.watch()
    await world.submit(max_retries_preemption=1)
    [mine] = await world.claim()
    found = chores(ledger, Doorbells())
    await found["reap leases"].run()
    for _ in range(7):
        await world.clock.advance(5)
        await found["reap leases"].run()
    await found["requeue due"].run()
    [again] = await world.claim()
    assert (again.task_id, again.attempt) == (mine.task_id, 1)


async def test_what_was_forgotten_of_many_is_found_in_one_turn_after_the_other(
    ledger: Ledger, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chore_list, "WALK_MAX", 2)
    parents = [await world.submit() for _ in range(5)]
    for parent in parents:
        await world.submit(depends_on=[str(parent)])
    for claimed in await world.claim(10):
        await world.succeed(claimed)
    await world.clock.fetch("delete from holdfast.outbox")
    chore = chores(ledger, Doorbells())["look for forgotten dependents"]
    assert [await chore.run() for _ in range(3)] == [True, True, False]
    rows = await world.clock.fetch("select job_id from holdfast.outbox order by id")
    assert [row[0] for row in rows] == parents
    assert await chore.run()  # from the beginning again; what is on its way is not told twice
    assert await world.count("outbox") == 5
