"""Bells: as many are woken as the news is worth, and no ring is lost between look and wait."""

import asyncio
from typing import NamedTuple

import pytest

from holdfast.services.waking.doorbell import Bell, Doorbells
from tests.waiting import eventually

DOOR = Bell("queue", "q")
OTHER = Bell("queue", "other")


async def test_a_ring_before_the_wait_is_heard() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR]) as listener:
        doorbells.ring(DOOR)
        assert await listener.wait(60)
        assert not listener.was_rung


async def test_a_ring_during_the_wait_is_heard() -> None:
    doorbells = Doorbells()
    with doorbells.listen([OTHER, DOOR]) as listener:
        waiting = asyncio.create_task(listener.wait(60))
        await asyncio.sleep(0)
        doorbells.ring(DOOR)
        assert await waiting


async def test_time_that_is_over_is_no_ring() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR]) as listener:
        assert not await listener.wait(0.001)
        assert not await listener.wait(-1)


async def test_a_ring_that_nobody_hears_is_forgotten() -> None:
    doorbells = Doorbells()
    assert doorbells.ring(DOOR, worth=3) == 3
    with doorbells.listen([DOOR]) as listener:
        assert not listener.was_rung


async def test_other_bells_are_not_heard() -> None:
    doorbells = Doorbells()
    with doorbells.listen([OTHER]) as listener:
        doorbells.ring(DOOR)
        doorbells.ring(Bell("job", "other"))
        assert not listener.was_rung


async def test_those_who_came_first_are_woken_until_the_news_is_used_up() -> None:
    doorbells = Doorbells()
    with (
        doorbells.listen([DOOR], appetite=4) as first,
        doorbells.listen([DOOR], appetite=4) as second,
        doorbells.listen([DOOR], appetite=4) as third,
        doorbells.listen([DOOR], appetite=4) as fourth,
    ):
        assert doorbells.ring(DOOR, worth=10) == 0
        rung = [listener.was_rung for listener in (first, second, third, fourth)]
        assert rung == [True, True, True, False]
        # Those have not looked yet: more news is for the next one, and there is some left over.
        assert doorbells.ring(DOOR, worth=6) == 2
        assert fourth.was_rung


async def test_who_listens_for_two_bells_is_woken_once_for_both() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR, OTHER]) as both, doorbells.listen([OTHER]) as other:
        doorbells.ring(DOOR)
        doorbells.ring(OTHER)
        assert await both.wait(60)
        assert not both.was_rung
        assert await other.wait(60)


async def test_the_same_bell_twice_is_one_bell() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR, DOOR]):
        assert doorbells.names("queue") == ["q"]
    assert doorbells.names("queue") == []


async def test_who_leaves_without_looking_passes_the_news_on() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR]) as next_one:
        with doorbells.listen([OTHER, DOOR]) as late:
            doorbells.ring(OTHER)
            # A ring at the very end of the time: there is none left to look.
            assert not await late.wait(0)
            assert not next_one.was_rung
        assert next_one.was_rung


async def test_who_has_looked_keeps_the_news() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR]) as patient:
        with doorbells.listen([OTHER]) as quick:
            doorbells.ring(OTHER)
            assert await quick.wait(60)
        assert not patient.was_rung


async def test_names_say_who_is_listened_for() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR, Bell("job", "7")]), doorbells.listen([DOOR, OTHER]):
        assert sorted(doorbells.names("queue")) == ["other", "q"]
        assert doorbells.names("job") == ["7"]
    assert doorbells.names("queue") == doorbells.names("job") == []


async def test_a_listener_that_is_cancelled_leaves() -> None:
    doorbells = Doorbells()

    async def listen() -> None:
        with doorbells.listen([DOOR]) as listener:
            await listener.wait(60)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    assert doorbells.names("queue") == ["q"]
    listening.cancel()
    await asyncio.wait([listening])
    assert doorbells.names("queue") == []


async def test_closing_sends_everybody_home_without_news() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR]) as one, doorbells.listen([OTHER]) as other:
        waiting = [asyncio.create_task(listener.wait(3600)) for listener in (one, other)]
        await asyncio.sleep(0)
        doorbells.close()
        async with asyncio.timeout(20):
            assert await asyncio.gather(*waiting) == [False, False]
    assert doorbells.is_closed


async def test_who_listens_after_the_closing_does_not_wait() -> None:
    doorbells = Doorbells()
    doorbells.close()
    with doorbells.listen([DOOR], wish=Wish()) as late:
        async with asyncio.timeout(20):
            assert not await late.wait(3600)


@pytest.mark.parametrize("steps", range(5))
async def test_a_cancel_is_not_lost_when_it_meets_a_ring(steps: int) -> None:
    doorbells = Doorbells()

    async def wait() -> None:
        with doorbells.listen([DOOR]) as listener:
            while True:
                await listener.wait(60)

    waiting = asyncio.create_task(wait())
    await eventually(lambda: doorbells.names("queue"))
    doorbells.ring(DOOR)
    for _ in range(steps):
        await asyncio.sleep(0)
    waiting.cancel()
    await eventually(waiting.done)
    assert waiting.cancelled()


class Wish(NamedTuple):
    """What somebody asks for."""

    request: str = "up to two"
    is_over: bool = False


async def test_a_wish_is_fulfilled_without_a_ring() -> None:
    doorbells = Doorbells()
    with doorbells.listen([OTHER, DOOR], wish=Wish()) as listener:
        waiting = asyncio.create_task(listener.wait(60))
        await asyncio.sleep(0)
        with doorbells.borrow("q") as loan:
            assert loan is not None
            assert loan.request == "up to two"
            loan.give(["one"])
            with doorbells.borrow("other") as twice:
                assert twice is None
            assert doorbells.ring(DOOR) == 1, "who has something is not rung"
        assert not await waiting
        assert listener.given == ["one"]


async def test_who_is_given_nothing_looks_by_himself() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR], wish=Wish()) as listener:
        waiting = asyncio.create_task(listener.wait(60))
        await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError), doorbells.borrow("q"):
            raise ZeroDivisionError
        assert await waiting
        assert listener.given is None


async def test_who_is_lent_stays_until_he_has_his_answer() -> None:
    doorbells = Doorbells()
    with doorbells.listen([DOOR], wish=Wish()) as listener:
        waiting = asyncio.create_task(listener.wait(0.001))
        await asyncio.sleep(0)
        with doorbells.borrow("q") as loan:
            doorbells.close()
            done, _ = await asyncio.wait([waiting], timeout=0.05)
            assert not done
            assert loan is not None
            loan.give(["one"])
        assert not await waiting
        assert listener.given == ["one"]
        with doorbells.borrow("q") as loan:
            assert loan is None, "nothing is lent by a server that stops"


async def test_the_first_who_sits_there_with_a_wish_is_lent() -> None:
    doorbells = Doorbells()
    with (
        doorbells.listen([DOOR], wish=Wish()) as looks,
        doorbells.listen([DOOR]) as wants_nothing,
        doorbells.listen([DOOR], wish=Wish(is_over=True)) as is_over,
        doorbells.listen([DOOR], wish=Wish("first")) as first,
        doorbells.listen([DOOR], wish=Wish("second")) as second,
    ):
        sitting = [wants_nothing, is_over, first, second]
        waits = [asyncio.create_task(each.wait(60)) for each in sitting]
        await asyncio.sleep(0)
        with doorbells.borrow("q") as one, doorbells.borrow("q") as two:
            assert one is first
            assert two is second
            with doorbells.borrow("q") as three:
                assert three is None
        assert not looks.was_rung
        doorbells.close()
        await asyncio.gather(*waits)
