"""What an audit reads of a ledger: nothing but damage, and every job."""

from holdfast.operations.upkeep.audit import list_rules
from holdfast.rules.job_state import JobCounts
from holdfast.store.audit import AuditedJob, begin_audit, find_damage, read_job_counts
from holdfast.store.database import Database
from tests.world import World


async def test_a_ledger_in_order_has_no_damage_and_every_job(
    database: Database, world: World
) -> None:
    job_id = await world.submit([1, 2])
    async with database.snapshot() as tx:
        await begin_audit(tx)
        assert [damage async for damage in find_damage(tx, list_rules())] == []
        assert [job async for job in read_job_counts(tx)] == [
            AuditedJob(job_id, 1, None, True, None, False, False, JobCounts(pending=2))
        ]


async def test_damage_names_its_invariant_and_its_task(database: Database, world: World) -> None:
    job_id = await world.submit()
    await world.clock.fetch("delete from holdfast.ready where job_id = $1", job_id)
    async with database.snapshot() as tx:
        await begin_audit(tx)
        [damage] = [damage async for damage in find_damage(tx, list_rules())]
    assert damage[:4] == ("pending_task_not_in_line", job_id, 0, None)
