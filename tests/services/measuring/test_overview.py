"""The overview is read once, however many look, and again after a moment."""

import asyncio

import pytest

from holdfast.operations.register import Registration, register
from holdfast.services.measuring.overview import Overviews, read_attention
from holdfast.store.database import Database
from holdfast.store.reads import queues
from tests.world import World


async def test_many_who_look_at_once_cost_one_read(world: World, database: Database) -> None:
    overviews = Overviews(database, fresh_seconds=600)
    seen = await asyncio.gather(*(overviews.read(3600) for _ in range(20)))
    await world.submit()
    seen.append(await overviews.read(3600))
    assert len({id(chart) for chart, _ in seen}) == 1
    assert len({id(attention) for _, attention in seen}) == 1
    other, _ = await overviews.read(7200)
    assert (other.step_seconds, other.live.ready) == (60, 1), "another window is read by itself"


async def test_what_is_old_is_read_again(world: World, database: Database) -> None:
    overviews = Overviews(database, fresh_seconds=0, attention_fresh_seconds=0)
    chart, attention = await overviews.read(3600)
    assert (chart.live.ready, attention) == (0, [])
    await world.submit()
    await world.clock.advance(61)
    chart, attention = await overviews.read(3600)
    assert (chart.live.ready, len(attention)) == (1, 1)


async def test_a_queue_that_does_not_drain_is_told(world: World, database: Database) -> None:
    await world.watch()
    await world.submit([1, 2, 3])
    await world.clock.advance(61)
    [found] = await read_attention(database)
    assert (found.kind, found.severity, found.subject) == ("queue_stalled", "critical", "q")
    assert found.message.startswith("no worker serves it; 3 tasks in line")
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    [found] = await read_attention(database)
    assert found.message.startswith("nothing runs or finishes; 3 tasks in line")
    [first] = await world.claim()
    [found] = await read_attention(database)
    assert (found.severity, found.count) == ("warning", 2)
    assert found.message.startswith("nothing finished in the last minute")
    await world.start(first)
    await world.succeed(first)
    assert await read_attention(database) == []


async def test_what_is_too_much_to_look_at_is_not_called_stalled(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit()
    await world.clock.advance(61)
    assert len(await read_attention(database)) == 1
    for _ in range(2):
        await world.submit(queue="busy")
    monkeypatch.setattr(queues, "EVENTS_LOOKED_AT_MAX", 2)
    assert await read_attention(database) == []


async def test_a_worker_that_is_missed_is_told(world: World, database: Database) -> None:
    await register(world.ledger, Registration("w1", "w", "h", ("q",)))
    await world.submit()
    await world.claim(worker="w1")
    await world.clock.advance(31)
    [found] = await read_attention(database)
    assert (found.kind, found.subject) == ("worker_lost", "w1")
    assert found.message == "silent, and holds 1 attempt"
