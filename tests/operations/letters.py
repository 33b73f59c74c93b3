"""Dead letters for tests: made, and found again."""

from typing import Any

from holdfast.model.work.ids import TaskId
from tests.world import World


async def dead_inputs(world: World, count: int, dead: int, **fields: Any) -> int:
    """Submit inputs 0, 1, ...; the first few end as dead letters, the rest succeed."""
    job_id = await world.submit(inputs=list(range(count)), **fields)
    for mine in await world.claim(count, queue=fields.get("queue", "q")):
        if mine.task_id.task_index < dead:
            await world.fail(mine)
        else:
            await world.succeed(mine)
    return job_id


async def found(world: World, **wanted: Any) -> list[TaskId]:
    """List the ids of the dead letters that fit."""
    return [letter.id for letter in await world.dead_letters(**wanted)]
