"""A lease says which slots it holds, on every way by which a task is claimed."""

from holdfast.ledger.ledger import Ledger
from holdfast.model.work.ids import TaskId
from holdfast.model.workers.resources import Capacity
from holdfast.operations.claiming.claim import claim
from holdfast.operations.claiming.requests import ClaimRequest
from tests.audits import assert_audit_is_silent
from tests.limits import count_rows, set_limit
from tests.world import World

ROOM = Capacity(cpu=8_000, memory=1 << 40, disk=1 << 40)
RESOURCES = {"cpu": 1000, "memory": "1GB", "disk": 0}


async def test_a_claim_by_id_or_by_what_fits_passes_the_limits_too(
    world: World, ledger: Ledger
) -> None:
    await set_limit(world.clock, "owners", "owner", 2)
    await set_limit(world.clock, "queues", "queue", 2)
    job_id = await world.submit([1, 2, 3], slots=1)
    sized = await world.submit([4, 5, 6], resources=RESOURCES)
    await world.claim_by_id(TaskId(job_id, 1))
    fitting = ClaimRequest("w2", ("q",), 6, free=ROOM)
    [answer] = await claim(ledger, [fitting])
    assert isinstance(answer, list)
    assert len(answer) == 1
    [refused] = await claim(ledger, [ClaimRequest("w3", task_id=TaskId(sized, 2))])
    assert "limited" in str(refused) or "not_eligible" in str(refused)
    [nothing] = await claim(ledger, [fitting])
    assert nothing == []
    rows = await world.clock.fetch("select cardinality(held), slots from holdfast.leases")
    assert list(map(tuple, rows)) == [(2, 1), (2, 1)]
    assert await count_rows(world.clock, "gated") + await count_rows(world.clock, "ready") == 4
    await assert_audit_is_silent(ledger.database)
