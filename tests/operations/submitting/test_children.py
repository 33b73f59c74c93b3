"""Who may submit child jobs: an attempt with a live lease, for its own job."""

from uuid import uuid4

import pytest

from holdfast.errors import Invalid, LeaseConflict
from holdfast.ledger.ledger import Ledger
from holdfast.model.work.fence import Fence
from holdfast.operations.submitting.children import get_parent
from tests.world import World, fence_of


async def test_a_running_attempt_acts_for_its_job(ledger: Ledger, world: World) -> None:
    job_id = await world.submit()
    [mine] = await world.claim()
    assert await get_parent(ledger, fence_of(mine)) == job_id
    await world.start(mine)
    assert await get_parent(ledger, fence_of(mine)) == job_id


async def test_a_stranger_acts_for_nobody(ledger: Ledger, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    for stranger in (
        Fence(mine.task_id, mine.attempt, uuid4()),
        Fence(mine.task_id, mine.attempt + 1, mine.lease_token),
    ):
        with pytest.raises(LeaseConflict):
            await get_parent(ledger, stranger)


async def test_from_its_end_on_an_attempt_may_only_say_goodbye(
    ledger: Ledger, world: World
) -> None:
    await world.submit()
    [mine] = await world.claim()
    await world.cancel_task(mine.task_id, "hard")
    assert (await world.renew(mine)).cancel == "hard"
    with pytest.raises(LeaseConflict):
        await get_parent(ledger, fence_of(mine))
    await world.complete(mine, "killed")
    with pytest.raises(LeaseConflict):
        await get_parent(ledger, fence_of(mine))


async def test_a_fence_of_the_wrong_shape_names_its_field(ledger: Ledger, world: World) -> None:
    await world.submit()
    [mine] = await world.claim()
    with pytest.raises(Invalid) as refused:
        await get_parent(ledger, Fence(mine.task_id, -1, mine.lease_token))
    assert refused.value.field == "attempt"
