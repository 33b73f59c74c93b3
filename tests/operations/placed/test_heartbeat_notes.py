"""Notes of heartbeats: of claimed and of placed work, and nothing where nobody asked for them."""

import pytest

from holdfast.errors import LeaseConflict
from holdfast.operations.prune import Retention, prune
from holdfast.store.specs import SpecCache
from tests.placed_world import PlacedWorld
from tests.world import World

DAY = 86_400


async def kinds(world: World | PlacedWorld, job_id: int) -> list[str]:
    rows = await world.clock.fetch(
        "select kind from holdfast.notes where job_id = $1 order by id", job_id
    )
    return [row[0] for row in rows]


async def test_the_renewals_of_a_verbose_job_are_noted_and_forgotten_in_time(world: World) -> None:
    verbose, quiet = await world.submit(verbose_events=True), await world.submit()
    for mine in await world.claim(2):
        await world.renew(mine)
    assert await kinds(world, verbose) == ["heartbeat", "lease_renewed"]
    assert await kinds(world, quiet) == []
    await world.clock.advance(8 * DAY)
    await prune(world.ledger, Retention())
    assert await kinds(world, verbose) == []


async def test_a_server_that_has_not_met_the_job_knows_it_too(world: World) -> None:
    job_id = await world.submit(verbose_events=True)
    [mine] = await world.claim()
    world.ledger.specs = SpecCache(jobs_max=1)
    await world.renew(mine)
    assert await kinds(world, job_id) == ["heartbeat", "lease_renewed"]


async def test_a_refused_renewal_leaves_no_note(world: World) -> None:
    job_id = await world.submit(verbose_events=True)
    [mine] = await world.claim()
    await world.succeed(mine)
    with pytest.raises(LeaseConflict):
        await world.renew(mine)
    assert await kinds(world, job_id) == []


async def test_answers_of_placed_work_are_noted(cluster: PlacedWorld) -> None:
    await cluster.add("w1")
    job_id = await cluster.submit(verbose_events=True)
    await cluster.placed(job_id)
    before = await kinds(cluster, job_id)
    await cluster.beat("w1")
    assert (await kinds(cluster, job_id))[len(before) :] == ["heartbeat", "lease_renewed"]
