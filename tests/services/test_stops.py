"""Workers learn which of their attempts should stop: once from here, and whether to drain."""

import asyncio
from datetime import timedelta

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.operations.register import Registration, drain, register
from holdfast.services.stops import Stop, Stops
from holdfast.services.waking.doorbell import Doorbells
from tests.waiting import eventually
from tests.world import World


@pytest.fixture
def doorbells() -> Doorbells:
    """Who waits."""
    return Doorbells()


@pytest.fixture
def stops(ledger: Ledger, doorbells: Doorbells) -> Stops:
    """What workers are told."""
    return Stops(ledger, doorbells)


async def at_last(stops: Stops, worker: str) -> list[Stop]:
    """Let a worker wait an hour; somebody must have something to tell it long before."""
    async with asyncio.timeout(30):
        return await stops.wait(worker, 3600)


async def waiting(stops: Stops, doorbells: Doorbells, worker: str) -> asyncio.Task[list[Stop]]:
    """Let a worker wait, and make sure that it does."""
    task = asyncio.create_task(at_last(stops, worker))
    await eventually(lambda: worker in doorbells.names("worker"))
    return task


async def test_a_worker_that_waits_is_told_of_a_cancel_once(
    stops: Stops, doorbells: Doorbells, world: World
) -> None:
    await world.submit(grace=20.0)
    [mine] = await world.claim()
    task = await waiting(stops, doorbells, "w1")
    assert await stops.look() == 0
    await world.cancel_task(mine.task_id, "soft")
    await stops.look()
    [stop] = await task
    assert stop[:3] == (mine.task_id, mine.attempt, "soft")
    assert stop.remaining is not None
    assert timedelta() < stop.remaining <= timedelta(seconds=20)
    again = await waiting(stops, doorbells, "w1")
    await stops.look()
    assert not again.done()
    doorbells.close()
    assert await again == []


async def test_what_was_decided_before_it_came_is_told_at_once(stops: Stops, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id, "hard")
    assert await at_last(stops, "w1") == [Stop(mine.task_id, mine.attempt, "hard", None)]


async def test_a_harder_stop_is_news_again(
    stops: Stops, doorbells: Doorbells, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id, "soft")
    assert [stop.mode for stop in await at_last(stops, "w1")] == ["soft"]
    task = await waiting(stops, doorbells, "w1")
    await world.cancel_task(mine.task_id, "hard")
    await stops.look()
    assert await task == [Stop(mine.task_id, mine.attempt, "hard", None)]


async def test_each_worker_hears_of_its_own_attempts_alone(
    stops: Stops, doorbells: Doorbells, world: World
) -> None:
    await world.submit(inputs=[1, 2])
    [mine] = await world.claim(worker="w1")
    [other] = await world.claim(worker="w2")
    first, second = [await waiting(stops, doorbells, worker) for worker in ("w1", "w2")]
    await world.cancel_task(other.task_id, "hard")
    await stops.look()
    assert [stop.task_id for stop in await second] == [other.task_id]
    assert not first.done()
    await world.cancel_task(mine.task_id, "hard")
    await stops.look()
    assert [stop.task_id for stop in await first] == [mine.task_id]


async def test_a_soft_cancel_whose_grace_is_over_leaves_no_time(stops: Stops, world: World) -> None:
    await world.submit(grace=20.0)
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id, "soft")
    await world.clock.advance(25)
    [stop] = await at_last(stops, "w1")
    assert stop.remaining == timedelta()


async def test_nothing_to_tell_is_an_empty_answer_at_the_end(stops: Stops) -> None:
    assert await stops.wait("w1", 0.001) == []


async def test_what_the_worker_has_let_go_of_is_forgotten(
    stops: Stops, doorbells: Doorbells, world: World
) -> None:
    await world.submit(max_retries_failure=1, timeout=10.0, lease=120.0, backoff={"base": 0.0})
    [mine] = await world.claim()
    await world.start(mine)
    await world.pass_time(15)
    assert [stop.mode for stop in await at_last(stops, "w1")] == ["hard"]
    task = await waiting(stops, doorbells, "w1")
    await world.complete(mine, "killed")
    await world.run_chores()
    await stops.look()
    [again] = await world.claim()
    assert again.attempt == 1
    await world.cancel_task(again.task_id, "hard")
    await stops.look()
    assert await task == [Stop(again.task_id, 1, "hard", None)]


async def test_workers_that_were_heard_of_are_noted(
    stops: Stops, ledger: Ledger, world: World
) -> None:
    for name in ("w1", "w2"):
        await register(ledger, Registration(name, "worker", "host"))
    stops.see("w1")
    stops.see("nobody")
    await stops.note_workers()
    rows = await world.clock.fetch(
        "select worker_id, last_seen_at is not null from holdfast.workers order by 1"
    )
    assert [tuple(row) for row in rows] == [("w1", True), ("w2", False)]


async def test_a_worker_that_waits_is_told_to_drain(
    stops: Stops, doorbells: Doorbells, ledger: Ledger
) -> None:
    await register(ledger, Registration("w1", "worker", "host"))
    stops.see("w1")
    await stops.note_workers()
    assert "w1" not in stops.draining
    task = await waiting(stops, doorbells, "w1")
    await drain(ledger, "w1", actor="ops")
    await stops.note_workers()
    assert await task == []
    assert stops.draining == {"w1"}


async def test_who_drains_does_so_for_good_and_is_not_kept_waiting(
    stops: Stops, ledger: Ledger
) -> None:
    for name in ("w1", "w2"):
        await register(ledger, Registration(name, "worker", "host"))
    await drain(ledger, "w1", actor="ops")
    stops.see("w1")
    await stops.note_workers()
    stops.see("w2")
    await stops.note_workers()
    assert stops.draining == {"w1"}
    assert await at_last(stops, "w1") == []


async def test_a_server_that_stops_keeps_nobody_waiting(stops: Stops, doorbells: Doorbells) -> None:
    doorbells.close()
    assert await at_last(stops, "w1") == []
