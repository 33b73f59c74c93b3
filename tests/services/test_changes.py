"""Whoever watches hears of every job that changes, and is told when it may have missed some."""

import pytest

from holdfast.ledger.ledger import Ledger
from holdfast.services import changes
from holdfast.services.changes import Changes, Tick
from tests.world import World


@pytest.fixture
def watched(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Changes:
    """Changes that look each time they are asked."""
    monkeypatch.setattr(changes, "TICK_SECONDS", 0.0)
    return Changes(ledger.database)


async def _begin(watched: Changes) -> int:
    [first] = await watched.read(None)
    assert first.all
    return first.end


async def test_a_change_is_told_to_each_who_watches(world: World, watched: Changes) -> None:
    start = await _begin(watched)
    job = await world.submit()
    for _ in range(2):
        [tick] = await watched.read(start)
        assert (tick.job_ids, tick.all) == ([job], False)
    assert await watched.read(tick.end) == []


async def test_nothing_new_stays_nothing_new(watched: Changes) -> None:
    start = await _begin(watched)
    for _ in range(3):
        assert await watched.read(start) == []


async def test_who_comes_back_hears_of_all_that_was_missed(world: World, watched: Changes) -> None:
    start = await _begin(watched)
    jobs = []
    for _ in range(3):
        jobs.append(await world.submit())
        await watched.read(start)
    assert [tick.job_ids for tick in await watched.read(start)] == [[job] for job in jobs]


async def test_too_many_jobs_are_told_as_all(
    world: World, watched: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "JOBS_MAX", 1)
    start = await _begin(watched)
    await world.submit()
    await world.submit()
    assert [tick.all for tick in await watched.read(start)] == [True]


async def test_too_many_events_are_told_as_all_and_not_all_read(
    world: World, watched: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "EVENTS_MAX", 3)
    start = await _begin(watched)
    await world.submit([1, 2])
    [tick] = await watched.read(start)
    assert not tick.all
    await world.claim(2)
    await world.submit()
    assert [tick.all for tick in await watched.read(tick.end)] == [True]


async def test_what_is_forgotten_is_told_as_all(
    world: World, watched: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "TICKS_KEPT", 1)
    start = await _begin(watched)
    for _ in range(2):
        await world.submit()
        await watched.read(start)
    assert [tick.all for tick in await watched.read(start)] == [True]


async def test_a_place_of_another_ledger_is_not_known(watched: Changes) -> None:
    start = await _begin(watched)
    [tick] = await watched.read(start + 1_000_000)
    assert tick == Tick(tick.end, [], all=True)
    assert start <= tick.end < start + 1_000_000


async def test_after_a_pause_it_begins_anew(world: World, watched: Changes) -> None:
    watched = Changes(world.ledger.database, idle_seconds=0.0)
    start = await _begin(watched)
    await world.submit()
    assert [tick.all for tick in await watched.read(start)] == [True]
