"""Limits of use for tests, set past everything that checks them, and what may never be seen."""

from typing import Any

from tests.clock import Clock

# How many slots a key held after each change, from the attempts' own times: a slot is taken with
# the claim, and given back when the attempt is released. What ends at an instant ends before what
# begins then.
_MOST_HELD = """
with keyed as (
    select attempt_history.created_at, attempt_history.released_at,
           coalesce((spec ->> 'slots')::int, 1) as slots,
           case $1 when 'queue' then queue when 'type' then type when 'owner' then owner
                   else holdfast.limit_key(spec, input) end as value
      from holdfast.attempt_history join holdfast.tasks using (job_id, task_index)
      join holdfast.jobs using (job_id)
),
changes as (
    select value, created_at as at, slots as change from keyed
     union all
    select value, released_at, -slots from keyed where released_at is not null
)
select value, max(held) as most
  from (select value, sum(change) over (partition by value order by at, change) as held
          from changes) as story
 group by value
"""


async def set_limit(clock: Clock, name: str, scope: str, most: float, **fields: Any) -> int:
    """Set a limit; returns its id."""
    columns = {"name": name, "scope": scope, "kind": "concurrency", "most": most} | fields
    names = ", ".join(columns)
    values = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    [row] = await clock.fetch(
        f"insert into holdfast.usage_limits ({names}, updated_at, updated_by) "
        f"values ({values}, holdfast.now(), 'test') returning limit_id",
        *columns.values(),
    )
    limit_id: int = row[0]
    return limit_id


async def most_held(clock: Clock, scope: str) -> dict[str, int]:
    """Say how many slots each queue, type, owner or key has ever held at once."""
    return dict(await clock.fetch(_MOST_HELD, scope))


async def count_rows(clock: Clock, table: str) -> int:
    """Count the rows of a table."""
    [row] = await clock.fetch(f"select count(*)::int from holdfast.{table}")
    found: int = row[0]
    return found
