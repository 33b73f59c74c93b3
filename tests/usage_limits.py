"""Limits as they stand in the tables, for tests of those who read them."""

from holdfast.model.limits.usage_limits import UsageLimit
from holdfast.model.work.ids import TaskId
from holdfast.operations.usage_limits.put import put_limit
from tests.world import World

FIVE = UsageLimit(scope="queue", kind="concurrency", most=5)


async def add_bucket(world: World, limit: str, value: str) -> int:
    """Let a limit have met a value; returns the id of its bucket."""
    [row] = await world.clock.fetch(
        "insert into holdfast.limit_buckets (limit_id, value) "
        "select limit_id, $2 from holdfast.usage_limits where name = $1 returning bucket_id",
        limit,
        value,
    )
    return int(row[0])


async def set_limit(world: World, name: str = "mail", limit: UsageLimit = FIVE) -> int:
    """Set a limit that has met the queue `q`; returns the id of that bucket."""
    await put_limit(world.ledger, name, limit, actor="ann")
    return await add_bucket(world, name, "q")


async def hold(world: World, bucket_id: int, *, count: int = 1, slots: int = 1) -> list[TaskId]:
    """Let attempts hold slots of a bucket."""
    for _ in range(count):
        await world.submit()
    claims = await world.claim(count)
    for claim in claims:
        await world.clock.fetch(
            "update holdfast.leases set held = array[$1::bigint], slots = $2 where job_id = $3",
            bucket_id,
            slots,
            claim.task_id.job_id,
        )
    return [claim.task_id for claim in claims]


async def gate(world: World, bucket_id: int, *, count: int = 1) -> int:
    """Put a job's tasks behind a bucket instead of in line; returns the job's id."""
    job_id = await world.submit(list(range(count)))
    await world.clock.fetch(
        "with moved as (delete from holdfast.ready where job_id = $1 returning *) "
        "insert into holdfast.gated (queue, urgency, eligible_at, job_id, task_index, "
        "unschedulable_at, avoid, bucket_id, gated_at) select queue, urgency, eligible_at, job_id, "
        "task_index, unschedulable_at, avoid, $2, holdfast.now() from moved",
        job_id,
        bucket_id,
    )
    return job_id
