"""Reports of starts under a key: once, and whoever repeats one gets the first answer."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from holdfast.errors import Invalid, KeyReused, LeaseConflict
from holdfast.ledger.keys import RequestKey, request_key
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.states import TaskState
from holdfast.operations.renew import Renewed
from holdfast.operations.report import Report
from holdfast.operations.report_once import Once, report_once
from tests.world import World, fence_of

BUILDING, RUNNING = TaskState.BUILDING, TaskState.RUNNING


async def start_once(
    ledger: Ledger, *fences: Fence, state: TaskState = RUNNING, key: str = "k"
) -> Once:
    """Report starts under a key, as a worker does."""
    keyed = request_key("start", "w1", key, request=[fences, state])
    assert isinstance(keyed, RequestKey)
    reports = [Report(fence, state) for fence in fences]
    return await report_once(ledger, reports, fences, keyed=keyed)


@pytest.mark.parametrize("state", [BUILDING, RUNNING])
async def test_a_repeat_is_answered_as_the_first_time_though_the_task_has_moved_on(
    ledger: Ledger, world: World, state: TaskState
) -> None:
    await world.submit(lease=60.0, max_attempts=2, backoff={"base": 0.0})
    [mine] = await world.claim()
    first = await start_once(ledger, fence_of(mine), state=state)
    [lease] = first.answers
    assert isinstance(lease, Renewed)
    assert (await world.task(mine.task_id)).state == state
    await world.fail(mine)
    [_] = await world.claim()
    await world.clock.advance(20)
    before = await world.dump()
    again = await start_once(ledger, fence_of(mine), state=state)
    assert await world.dump() == before
    [repeated] = again.answers
    assert isinstance(repeated, Renewed)
    assert (first.is_repeat, again.is_repeat) == (False, True)
    assert repeated.lease_expires_at == lease.lease_expires_at
    # Nobody may believe in a lease that has run down meanwhile.
    assert repeated.lease_remaining <= lease.lease_remaining - timedelta(seconds=20)


async def test_a_lost_lease_stays_lost_beside_one_that_was_started(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=2)
    mine, other = await world.claim(2)
    stale = fence_of(other)._replace(lease_token=uuid4())
    first = await start_once(ledger, fence_of(mine), stale)
    again = await start_once(ledger, fence_of(mine), stale)
    for once in (first, again):
        assert isinstance(once.answers[0], Renewed)
        assert isinstance(once.answers[1], LeaseConflict)
    assert str(first.answers[1]) == str(again.answers[1])


async def test_the_same_key_for_another_report_is_refused_and_changes_nothing(
    ledger: Ledger, world: World
) -> None:
    await world.submit(replicas=2)
    mine, other = await world.claim(2)
    await start_once(ledger, fence_of(mine), state=BUILDING)
    before = await world.dump()
    for fence, state in ((fence_of(other), BUILDING), (fence_of(mine), RUNNING)):
        with pytest.raises(KeyReused):
            await start_once(ledger, fence, state=state)
    with pytest.raises(Invalid, match="use BUILDING or RUNNING"):
        await start_once(ledger, fence_of(other), state=TaskState.SUCCEEDED, key="new")
    assert await world.dump() == before


async def test_two_at_once_under_one_key_start_once(ledger: Ledger, world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    told = await asyncio.gather(*[start_once(ledger, fence_of(mine)) for _ in range(4)])
    assert sorted(once.is_repeat for once in told) == [False, True, True, True]
    assert await world.story(job_id) == ["claimed", "started"]
