"""The batcher: gathers, answers after the commit, isolates, splits, is bounded, stops cleanly."""

import asyncio
from collections.abc import Sequence
from functools import partial

import asyncpg
import pytest

from holdfast.errors import Overloaded, Stopping, Unavailable
from holdfast.ledger.batcher import HALVED_MIN, Batcher
from holdfast.ledger.ledger import Ledger
from holdfast.ledger.news import News
from holdfast.model.work.states import TaskState
from holdfast.operations.claiming.claim import Answer, claim
from holdfast.operations.claiming.requests import ClaimRequest
from holdfast.operations.ending.complete import Completed, Completion, complete
from holdfast.operations.report import Recorded, Report, report
from holdfast.store.database import LockTimeout
from tests.world import World, fence_of


class Gate:
    """A write that waits until it is let through, and remembers what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.opened = asyncio.Event()

    async def write(self, items: list[int]) -> Sequence[int]:
        self.batches.append(items)
        await self.opened.wait()
        return [item * 10 for item in items]


def _slots(writes: int = 1) -> asyncio.Semaphore:
    return asyncio.Semaphore(writes)


async def _settled() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_calls_that_arrive_during_a_write_go_into_the_next_one() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate.write, slots=_slots())
    first = asyncio.create_task(batcher.call([1]))
    await _settled()
    others = [asyncio.create_task(batcher.call([n, n + 100])) for n in (2, 3)]
    await _settled()
    assert gate.batches == [[1]]
    assert not first.done()
    gate.opened.set()
    assert await first == [10]
    assert [await other for other in others] == [[20, 1020], [30, 1030]]
    assert gate.batches == [[1], [2, 102, 3, 103]]


async def test_two_writes_share_what_waits_when_both_slots_are_free() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate.write, slots=_slots(2))
    items = list(range(HALVED_MIN + 2))
    call = asyncio.create_task(batcher.call(items))
    await _settled()
    assert [len(batch) for batch in gate.batches] == [len(items) // 2] * 2
    gate.opened.set()
    assert await call == [item * 10 for item in items]


async def test_a_few_items_are_not_worth_two_writes() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate.write, slots=_slots(2))
    call = asyncio.create_task(batcher.call(list(range(HALVED_MIN))))
    await _settled()
    assert [len(batch) for batch in gate.batches] == [HALVED_MIN]
    gate.opened.set()
    await call


async def test_a_batch_is_no_larger_than_its_limit() -> None:
    gate = Gate()
    gate.opened.set()
    batcher: Batcher[int, int] = Batcher(gate.write, slots=_slots(), batch_max=3)
    assert await batcher.call(list(range(8))) == [n * 10 for n in range(8)]
    assert [len(batch) for batch in gate.batches] == [3, 3, 2]


async def test_a_batch_is_no_heavier_than_its_limit() -> None:
    gate = Gate()
    gate.opened.set()
    batcher: Batcher[int, int] = Batcher(
        gate.write, slots=_slots(), weigh=lambda item: item, weight_max=10
    )
    assert await batcher.call([4, 6, 1, 20, 3, 7]) == [40, 60, 10, 200, 30, 70]
    assert gate.batches == [[4, 6], [1], [20], [3, 7]]


async def test_a_bad_item_fails_alone_and_the_rest_is_written() -> None:
    written: list[int] = []

    async def write(items: list[int]) -> Sequence[int]:
        if 13 in items:
            raise ValueError("thirteen")
        written.extend(items)
        return items

    batcher: Batcher[int, int] = Batcher(write, slots=_slots())
    answers = await asyncio.gather(*(batcher.call([n]) for n in range(20)))
    assert [answer for [answer] in answers if not isinstance(answer, Exception)] == [
        n for n in range(20) if n != 13
    ]
    [bad] = answers[13]
    assert isinstance(bad, ValueError)
    assert sorted(written) == [n for n in range(20) if n != 13]


async def test_what_is_written_is_not_written_again_however_it_is_answered() -> None:
    batches: list[list[int]] = []

    async def write(items: list[int]) -> Sequence[int]:
        batches.append(items)
        return items[1:]

    batcher: Batcher[int, int] = Batcher(write, slots=_slots())
    answers = await batcher.call([1, 2, 3])
    assert [type(answer) for answer in answers] == [AssertionError] * 3
    assert batches == [[1, 2, 3]]


async def test_what_breaks_after_the_commit_is_no_failed_write(
    ledger: Ledger, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def break_off(_: News) -> None:
        raise ZeroDivisionError("while others are told")

    await world.submit([1, 2, 3, 4])
    ledger.on_commit = break_off
    batcher: Batcher[ClaimRequest, Answer] = Batcher(partial(claim, ledger), slots=_slots())
    answers = await batcher.call([ClaimRequest(worker, ("q",)) for worker in ("w1", "w2")])
    assert [len(answer) for answer in answers if not isinstance(answer, Exception)] == [1, 1]
    assert await world.count("leases") == 2, "leases that nobody holds"
    assert "while others are told" in caplog.text


async def test_an_outage_is_answered_at_once_to_everybody() -> None:
    tries = 0

    async def write(items: list[int]) -> Sequence[int]:
        nonlocal tries
        tries += 1
        raise Unavailable("gone")

    batcher: Batcher[int, int] = Batcher(write, slots=_slots())
    answers = await batcher.call([1, 2, 3])
    assert [type(answer) for answer in answers] == [Unavailable] * 3
    assert tries == 1


async def test_it_is_bounded() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate.write, slots=_slots(), batch_max=1, waiting_max=3)
    first = asyncio.create_task(batcher.call([1]))
    await _settled()
    second = asyncio.create_task(batcher.call([2, 3, 4]))
    await _settled()
    with pytest.raises(Overloaded):
        await batcher.call([5])
    gate.opened.set()
    assert (await first, await second) == ([10], [20, 30, 40])
    assert await batcher.call([5]) == [50]


async def test_it_stops_after_everything_taken_is_answered() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate.write, slots=_slots(), batch_max=1)
    calls = [asyncio.create_task(batcher.call([n])) for n in range(3)]
    await _settled()
    stopping = asyncio.create_task(batcher.stop())
    await _settled()
    with pytest.raises(Stopping):
        await batcher.call([9])
    gate.opened.set()
    await stopping
    assert [call.result() for call in calls] == [[0], [10], [20]]


async def test_an_item_whose_caller_has_gone_away_is_not_written() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate.write, slots=_slots())
    first = asyncio.create_task(batcher.call([1]))
    await _settled()
    impatient = asyncio.create_task(batcher.call([2]))
    patient = asyncio.create_task(batcher.call([3]))
    await _settled()
    impatient.cancel()
    await _settled()
    gate.opened.set()
    await first
    assert await patient == [30]
    assert gate.batches == [[1], [3]]


async def test_two_batchers_share_their_slots() -> None:
    slots = asyncio.Semaphore(1)
    one, other = Gate(), Gate()
    first: Batcher[int, int] = Batcher(one.write, slots=slots)
    second: Batcher[int, int] = Batcher(other.write, slots=slots)
    calls = [asyncio.create_task(first.call([1])), asyncio.create_task(second.call([2]))]
    await _settled()
    assert (one.batches, other.batches) == ([[1]], [])
    one.opened.set()
    other.opened.set()
    assert [await call for call in calls] == [[10], [20]]


async def test_duplicates_of_a_completion_in_one_batch_have_one_effect(
    world: World, ledger: Ledger
) -> None:
    job_id = await world.submit()
    [claim] = await world.claim()
    completions: Batcher[Completion, object] = Batcher(
        lambda items: complete(ledger, items), slots=_slots()
    )
    item = Completion(fence_of(claim), "succeeded", result="1")
    answers = await asyncio.gather(*(completions.call([item]) for _ in range(5)))
    assert answers == [[Completed(claim.task_id, accepted=True)]] * 5
    assert await world.story(job_id) == ["claimed", "started", "succeeded"]


async def test_an_item_whose_row_is_held_waits_while_the_others_go_on(
    world: World, ledger: Ledger, database_url: str
) -> None:
    await world.submit(inputs=[1, 2, 3, 4])
    claims = await world.claim(4)
    reports: Batcher[Report, object] = Batcher(lambda items: report(ledger, items), slots=_slots())
    holder = await asyncpg.connect(database_url)
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute(
        "select from holdfast.tasks where job_id = $1 and task_index = $2 for update",
        *claims[1].task_id,
    )
    calls = [
        asyncio.create_task(reports.call([Report(fence_of(claim), TaskState.RUNNING)]))
        for claim in claims
    ]
    free = [call for place, call in enumerate(calls) if place != 1]
    await asyncio.wait(free)
    assert not calls[1].done()
    await transaction.rollback()
    await holder.close()
    for mine, call in zip(claims, calls, strict=True):
        assert await call == [Recorded(mine.task_id, is_news=True)]


async def test_a_row_that_is_held_for_ever_is_answered_in_the_end() -> None:
    tries = 0

    async def write(items: list[int]) -> Sequence[int]:
        nonlocal tries
        tries += 1
        raise LockTimeout("held")

    batcher: Batcher[int, int] = Batcher(write, slots=_slots())
    [answer] = await batcher.call([1])
    assert isinstance(answer, LockTimeout)
    assert tries > 1


async def test_a_call_that_comes_while_all_writers_end_is_written() -> None:
    gate = asyncio.Event()

    async def write(items: list[int]) -> list[int]:
        await gate.wait()
        return items

    batcher: Batcher[int, int] = Batcher(write, slots=asyncio.Semaphore(2), batch_max=1)

    async def call_twice() -> list[int | Exception]:
        await batcher.call([1])
        return await batcher.call([2])

    first, second = asyncio.create_task(call_twice()), asyncio.create_task(batcher.call([3]))
    await _settled()
    gate.set()
    assert await second == [3]
    assert await asyncio.wait_for(first, 30) == [2]
