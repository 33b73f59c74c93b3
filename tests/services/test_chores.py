"""The loop that runs the chores: it goes on after trouble, and stops when it is told to."""

import asyncio
import logging

import pytest

from holdfast.errors import Unavailable
from holdfast.services.chores import (
    REST_FACTOR,
    REST_SECONDS_MAX,
    Chore,
    run_in_background,
)
from tests.waiting import eventually


class Turns:
    """A chore whose turns were written down before: counts to return, errors to raise."""

    def __init__(self, *turns: int | Exception) -> None:
        self._turns = list(turns)
        self.taken = 0

    async def run(self) -> int:
        self.taken += 1
        turn = self._turns.pop(0) if self._turns else 0
        if isinstance(turn, Exception):
            raise turn
        return turn


async def test_a_chore_runs_at_once_and_again() -> None:
    turns = Turns()
    async with run_in_background([Chore("sweep", 0.001, turns.run)]):
        await eventually(lambda: turns.taken >= 3)


async def test_a_chore_that_takes_long_rests_in_proportion() -> None:
    async def sweep() -> int:
        await asyncio.sleep(0.02)
        return 0

    chore = Chore("sweep", 0.001, sweep)
    async with run_in_background([chore]):
        await eventually(lambda: chore.turns.rest)
        ended_at = chore.turns.ended_at
        await eventually(lambda: chore.turns.ended_at > ended_at)
    assert chore.turns.ended_at - ended_at > REST_FACTOR * 0.02
    assert chore.turns.late(chore.every) == 0
    chore.turns.rest_from(3600)
    assert chore.turns.rest == REST_SECONDS_MAX


async def test_full_loads_go_on_at_once() -> None:
    turns = Turns(500, 500, 499)
    async with run_in_background([Chore("sweep", 3600, turns.run, full=500)]):
        await eventually(lambda: turns.taken == 3)
        for _ in range(10):
            await asyncio.sleep(0)
        assert turns.taken == 3


async def test_it_goes_on_when_the_database_was_away(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns(Unavailable("no Postgres"), 0)
    async with run_in_background([Chore("sweep", 0.001, turns.run)]):
        await eventually(lambda: turns.taken >= 3)
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (
        logging.WARNING,
        "sweep will be tried again: no Postgres",
    )


async def test_it_goes_on_after_a_broken_invariant_and_tells_it_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns = Turns(AssertionError("two leases"), 0)
    async with run_in_background([Chore("sweep", 0.001, turns.run)]):
        await eventually(lambda: turns.taken >= 3)
    [record] = caplog.records
    assert record.getMessage() == "sweep failed"
    assert record.exc_info is not None
    assert "two leases" in str(record.exc_info[1])


async def test_a_failing_chore_does_not_run_hot_nor_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing, fine = Turns(*[AssertionError("again")] * 100), Turns()
    chores = [Chore("failing", 3600, failing.run), Chore("fine", 0.001, fine.run)]
    async with run_in_background(chores):
        await eventually(lambda: fine.taken >= 3)
        assert failing.taken == 1


async def test_it_stops_without_waiting_for_the_interval() -> None:
    turns = Turns()
    async with asyncio.timeout(20):
        async with run_in_background([Chore("sweep", 3600, turns.run)]):
            await eventually(lambda: turns.taken == 1)


async def test_it_stops_between_two_turns_however_much_is_left() -> None:
    turns = Turns(*[1] * 1_000_000)

    async def run() -> int:
        await asyncio.sleep(0)
        return await turns.run()

    async with run_in_background([Chore("sweep", 3600, run)]):
        await eventually(lambda: turns.taken >= 2)
    assert turns.taken < 1_000_000


async def test_the_turn_that_is_being_taken_is_finished_first() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    ended: list[bool] = []

    async def run() -> int:
        begun.set()
        await may_end.wait()
        ended.append(True)
        return 0

    async with run_in_background([Chore("sweep", 3600, run)]):
        await begun.wait()
        asyncio.get_running_loop().call_later(0.01, may_end.set)
    assert ended == [True]


async def test_a_chore_that_is_woken_does_not_wait_for_its_time() -> None:
    turns, wanted = Turns(), asyncio.Event()
    async with run_in_background([Chore("sweep", 3600, turns.run, wake=wanted)]):
        await eventually(lambda: turns.taken == 1)
        wanted.set()
        await eventually(lambda: turns.taken == 2)
        wanted.set()
        await eventually(lambda: turns.taken == 3)


async def test_a_wish_during_a_turn_makes_another_turn() -> None:
    wanted = asyncio.Event()
    turns = 0

    async def run() -> int:
        nonlocal turns
        turns += 1
        if turns == 1:
            wanted.set()
        return 0

    async with run_in_background([Chore("sweep", 3600, run, wake=wanted)]):
        await eventually(lambda: turns == 2)
