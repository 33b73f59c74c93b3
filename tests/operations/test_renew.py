"""Renewing leases: whoever holds one may keep it, and learns what is asked of it."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.model.work.ids import TaskId
from holdfast.operations.ending.reap import reap
from holdfast.operations.renew import Renewed, renew
from holdfast.store.database import Database, LockTimeout
from tests.world import World, fence_of


async def test_a_renewal_puts_the_expiry_off_by_the_whole_lease(world: World) -> None:
    await world.submit(lease=40.0)
    [mine] = await world.claim()
    await world.clock.advance(15)
    renewed = await world.renew(mine)
    assert renewed.lease_remaining == timedelta(seconds=40)
    assert renewed.lease_expires_at - mine.lease_expires_at >= timedelta(seconds=15)
    assert (renewed.cancel, renewed.cancel_remaining) == (None, None)


async def test_a_renewal_touches_nothing_but_the_lease(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    before = await world.dump()
    await world.clock.advance(5)
    await world.renew(mine)
    after = await world.dump()
    assert after.pop("leases") != before.pop("leases")
    assert after == before


async def test_a_lease_that_ran_out_but_was_not_reaped_can_be_renewed(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.pass_time(25)
    await world.clock.advance(8)
    assert (await world.renew(mine)).lease_remaining == timedelta(seconds=30)
    assert await reap(ledger) == 0
    assert (await world.succeed(mine)).accepted


async def test_a_late_renewal_does_not_revive_an_ended_lease(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.pass_time(35)
    before = await world.dump()
    with pytest.raises(LeaseConflict):
        await world.renew(mine)
    assert await world.dump() == before


async def test_an_ending_lease_may_renew_and_is_told_to_stop(world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id, "hard")
    await world.clock.advance(10)
    renewed = await world.renew(mine)
    assert (renewed.cancel, renewed.lease_remaining) == ("hard", timedelta(seconds=30))


async def test_a_soft_cancel_is_told_with_what_is_left_of_its_grace(world: World) -> None:
    await world.submit(grace=20.0)
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id, "soft")
    await world.clock.advance(5)
    renewed = await world.renew(mine)
    assert renewed.cancel == "soft"
    assert renewed.cancel_remaining is not None
    assert timedelta(seconds=10) < renewed.cancel_remaining <= timedelta(seconds=15)
    await world.clock.advance(60)
    assert (await world.renew(mine)).cancel_remaining == timedelta()


async def test_strangers_conflict_and_change_nothing(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=2)
    mine, other = await world.claim(2)
    await world.succeed(other)
    task_id, attempt, token = fence_of(mine)
    before = await world.dump()
    answers = await renew(
        ledger,
        [
            Fence(task_id, attempt, uuid4()),
            Fence(task_id, attempt + 1, token),
            Fence(task_id, attempt, other.lease_token),
            fence_of(other),
            Fence(TaskId(10**6, 0), 0, token),
        ],
    )
    assert all(isinstance(answer, LeaseConflict) for answer in answers)
    assert await world.dump() == before


async def test_many_leases_and_duplicates_are_each_answered(ledger: Ledger, world: World) -> None:
    await world.submit(replicas=50)
    fences = [fence_of(mine) for mine in await world.claim(50)]
    answers = await renew(ledger, [*fences, fences[0], *reversed(fences)])
    assert all(isinstance(answer, Renewed) for answer in answers)
    renewed = [answer for answer in answers[:50] if isinstance(answer, Renewed)]
    assert [answer.task_id for answer in renewed] == [fence.task_id for fence in fences]


async def test_bad_fences_name_their_field_and_are_refused_alone(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    good = fence_of(mine)
    answers = await renew(
        ledger,
        [
            good._replace(lease_token=str(good.lease_token)),  # type: ignore[arg-type]
            good._replace(attempt=-1),
            good._replace(task_id=TaskId(0, 0)),
            good,
        ],
    )
    fields = [answer.field for answer in answers if isinstance(answer, Invalid)]
    assert fields == ["lease_token", "attempt", "task_id"]
    assert isinstance(answers[3], Renewed)


async def test_a_lease_that_somebody_holds_is_tried_again_and_never_a_conflict(
    ledger: Ledger, world: World, database_url: str
) -> None:
    await world.submit()
    [mine] = await world.claim()
    async with Database(database_url) as other:
        async with other.transaction() as tx:
            await tx.connection.execute("select from holdfast.leases for update")
            with pytest.raises(LockTimeout):
                await renew(ledger, [fence_of(mine)])
            renewal = asyncio.create_task(renew(ledger, [fence_of(mine)]))
        [answer] = await renewal
    assert isinstance(answer, Renewed)
