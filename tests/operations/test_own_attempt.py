"""What a lease reaches: as long as it is held, and for the jobs that its own has to do with."""

from uuid import uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict, NotAllowed
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.operations.own_attempt import check_children, check_lease, list_given, load_own
from tests.world import World, fence_of


async def check(ledger: Ledger, fence: Fence, *, also_ending: bool) -> None:
    async with ledger.database.transaction() as tx:
        await check_lease(tx, fence, also_ending=also_ending)


async def test_a_lease_is_good_until_its_attempt_ends_and_then_to_say_goodbye(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    for also_ending in (True, False):
        await check(ledger, fence_of(mine), also_ending=also_ending)
    await world.cancel_task(mine.task_id, "hard")
    await check(ledger, fence_of(mine), also_ending=True)
    with pytest.raises(LeaseConflict, match="its attempt has ended and may only checkpoint"):
        await check(ledger, fence_of(mine), also_ending=False)
    await world.complete(mine, "killed")
    with pytest.raises(LeaseConflict, match="good for nothing any more"):
        await check(ledger, fence_of(mine), also_ending=True)


@pytest.mark.parametrize("also_ending", [True, False])
async def test_a_lease_of_others_is_none(
    ledger: Ledger, world: World, *, also_ending: bool
) -> None:
    await world.submit()
    [mine] = await world.claim()
    for stranger in (
        Fence(mine.task_id, mine.attempt, uuid4()),
        Fence(mine.task_id, mine.attempt + 1, mine.lease_token),
    ):
        with pytest.raises(LeaseConflict):
            await check(ledger, stranger, also_ending=also_ending)
    with pytest.raises(Invalid, match="attempt"):
        await check(ledger, Fence(mine.task_id, -1, mine.lease_token), also_ending=also_ending)


async def test_it_is_given_what_its_job_waits_for(ledger: Ledger, world: World) -> None:
    first, second, other = [await world.submit() for _ in range(3)]
    for claim in await world.claim(3):
        await world.complete(claim, "succeeded")
    places = [{"path": ["args", 0], "job": str(first)}]
    call = {"function": "app:work", "args": [None], "results": places}
    ended = {"job": str(second), "condition": "ended"}
    job_id = await world.submit(entrypoint=call, depends_on=[str(first), ended])
    [mine] = await world.claim()
    async with ledger.database.transaction() as tx:
        assert await list_given(tx, ledger.specs, fence_of(mine)) == {first, second}
        own = await load_own(tx, ledger.specs, fence_of(mine))
        assert own.spec.entrypoint.args == [None]
        gone = fence_of(mine)._replace(task_id=mine.task_id._replace(job_id=999_999))
        with pytest.raises(LeaseConflict, match="its job is gone"):
            await load_own(tx, ledger.specs, gone)
        for stranger in (other, job_id, 999_999):
            with pytest.raises(NotAllowed, match=f"job {stranger} is no child of job {job_id}"):
                await check_children(tx, fence_of(mine), [first, stranger], besides=[first])
